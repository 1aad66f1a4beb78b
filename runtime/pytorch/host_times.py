#!/usr/bin/env python3
"""What Python's thread takes to issue the parts of a training step: samples of pdl-calibrate's probe `host`.

  pdl-calibrate --python python3 ...      starts   python3 host_times.py QUESTION ANSWER      (answering.py)

QUESTION: {"device": "cuda"|"cpu", "workers": N, "wait_limit_s": S, "versions_only": false}. ANSWER: {"samples": [...]}
as samples.json has them, and {"environment": {...}}, the versions.

All layers are so small that a step is nothing but host. Of models of 2 and of 6 layers: what 4 layers more take, a fourth
of it a layer, and what is left of 2, the call.

  python_forward, python_forward_layer, python_backward, ...,     torch.distributed.pipelining: each action of
  python_backward_input, ..., python_backward_weight, ...         _PipelineScheduleRuntime, where PyTorch itself puts a
  python_message (one batch_isend_irecv), python_loss,            name on it for its profiler; what the last stage
  python_action, python_step                                      takes more for the loss and its backward; what the
                                                                  schedule takes beside them, an action and a step, from
                                                                  steps of 4 and of 8 micro-batches

  python_plain_forward, ..., python_plain_backward, ...           model(x), of a script of one process; the loss and
                                                                  loss.backward()
  python_plain_forward_gpt_block, ..._llama_block, ...            the same of a block of a transformer, all of it
  python_ddp_forward                                              what DistributedDataParallel adds to model(x), and to
  python_ddp_hook, python_ddp_all_reduce                          the backward: a tensor's part, and an all-reduce's
  python_optimizer, python_optimizer_layer, ..._adam, ..._adam_layer     optimizer.step(), foreach
  python_zero_grad, python_zero_grad_layer                        before the forward, while the GPU has nothing to do
  python_data_parallel, python_data_parallel_layer                of DataParallel's model(x), a GPU's part: all of it,
                                                                  divided by the GPUs
  python_scaler                                                   what GradScaler adds to the backward and to it, its
                                                                  wait included

Those of a plain script also under autocast: python_plain_forward_amp, ... On one GPU there are no messages.
Left out: hosts that other work slows.
"""

import ends_with_parent  # noqa: F401

import contextlib
import re
import sys
import time
import warnings

warnings.filterwarnings("ignore")
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, schedules
    from torch.nn.parallel import DistributedDataParallel

    from answering import environment_of, serve
    from ranks import Ranks
    from training import MODULES
except (ImportError, OSError) as problem:
    print(problem, file=sys.stderr)
    sys.exit(4)  # as runtime/pytorch/interpreter.cpp knows it

WIDTH, ROWS = 64, 16
FEW, MANY = 4, 8  # micro-batches
SHORT, LONG = 2, 6  # layers of a stage
ROUNDS = 4  # of everything in turns, each with its own warm-up
WARMUP, STEPS, PLAIN_STEPS = 3, 7, 50
TOKENS = 4
BLOCKS = {"gpt_block": {"features": WIDTH, "heads": 2, "inner": WIDTH, "tokens": TOKENS, "dropout_percent": 0,
                        "gelu_tanh": 1},
          "llama_block": {"features": WIDTH, "heads": 2, "kv_heads": 2, "inner": WIDTH, "tokens": TOKENS}}
ACTIONS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight", "SEND_F": "message",
           "SEND_B": "message", "RECV_F": "message", "RECV_B": "message"}


class ActionTimes:
    """In the place of record_function in torch.distributed.pipelining.schedules: how long each action takes.

    Of the last stage, which has the loss, apart: "forward_of_last". Not of the first stage's backward, which has no input
    gradient: of it I is nothing, W all."""

    def __init__(self, recorded):
        self.on = False
        self.last_stage = None
        self.ns = {}
        self.recorded = recorded  # PyTorch's own, whose time is an action's

    @contextlib.contextmanager
    def __call__(self, name):
        entered = time.perf_counter_ns()
        found = re.fullmatch(r"PP:(\d+)([A-Z_]+?)(\d+)", name)
        with self.recorded(name):
            begin = time.perf_counter_ns()
            yield
            end = time.perf_counter_ns()
        if not self.on or not found:
            return
        self.all_ns += end - begin
        self.count += 1
        stage, action = int(found[1]), found[2]
        if action in ACTIONS and not (stage == 0 and action in ("B", "I", "W")):
            name = ACTIONS[action]
            if stage == self.last_stage and name in ("forward", "backward"):
                name += "_of_last"
            self.ns.setdefault(name, []).append(end - begin)
        self.own_ns += time.perf_counter_ns() - end + begin - entered

    def begin_step(self):
        self.all_ns = self.own_ns = self.count = 0


def stages_of(rank, world, layers, device):
    """So many that the last process has one that is neither the first nor the last of the model."""
    stages = []
    activation = torch.empty(ROWS, WIDTH, device="meta")
    chunks = 2 if world > 1 else 3
    for chunk in range(chunks):
        modules = []
        for _ in range(layers):
            modules += [nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU()]
        index = chunk * world + rank
        stages.append(PipelineStage(nn.Sequential(*modules), index, chunks * world, device, input_args=activation,
                                    output_args=activation))
    return stages


class Pipeline:
    """A schedule over stages of so many layers. steps(): what each took beside its actions, which go to `times`."""

    def __init__(self, rank, world, layers, schedule_class, microbatches, device):
        stages = stages_of(rank, world, layers, device)
        self.device, self.last_stage, self.actions = device, stages[-1].num_stages - 1, 0
        self.schedule = schedule_class(stages, microbatches, loss_fn=nn.functional.mse_loss, scale_grads=False)
        parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.0, foreach=True)
        batch = torch.zeros(microbatches * ROWS, WIDTH, device=device)
        self.arguments = (batch,) if rank == 0 else ()
        self.target = batch if rank == world - 1 else None

    def steps(self, times):
        times.last_stage = self.last_stage
        beside = []
        for step in range(WARMUP + STEPS):
            dist.barrier()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            times.on = step >= WARMUP
            times.begin_step()
            self.optimizer.zero_grad()
            begin = time.perf_counter_ns()
            self.schedule.step(*self.arguments, target=self.target, losses=[], return_outputs=False)
            taken = time.perf_counter_ns() - begin
            self.optimizer.step()
            if times.on:
                beside.append(taken - times.all_ns - times.own_ns)
                self.actions = times.count
        times.on = False
        return beside


def host_sample(name, values_ns):
    """The first value stands in as the warm-up that was dropped before it."""
    values = [round(value / 1e3, 4) for value in values_ns]
    return {"probe": "host", "name": "python_" + name, "implementation": "autograd", "unit": "us", "warmup": 1,
            "values": [values[0], *values]}


def quantiles(values, count):
    values, count = sorted(values), min(len(values), count)
    return [values[(2 * index + 1) * len(values) // (2 * count)] for index in range(count)]


def call_and_layer(name, short, long):
    """Quantile by quantile, so that a slow moment of the one is not taken from a fast one of the other."""
    count = min(len(short), len(long), 200)
    short, long = quantiles(short, count), quantiles(long, count)
    layer = [max(1.0, (b - a) / (LONG - SHORT)) for a, b in zip(short, long)]
    call = [max(1.0, a - SHORT * of_layer) for a, of_layer in zip(short, layer)]
    return [host_sample(name, call), host_sample(name + "_layer", layer)]


def losses_of(found):
    """Of the last process."""
    def more(kind):
        last, others = found[kind + "_of_last", SHORT], found[kind, SHORT]
        count = min(len(last), len(others), 200)
        return [a - b for a, b in zip(quantiles(last, count), quantiles(others, count))]

    return [max(1.0, forward + backward) for forward, backward in zip(more("forward"), more("backward"))]


def pipeline_samples(rank, world, device):
    times = ActionTimes(schedules.record_function)
    schedules.record_function = times
    kinds = (schedules.ScheduleInterleaved1F1B, schedules.ScheduleInterleavedZeroBubble)
    pipelines = {(layers, kind, count): Pipeline(rank, world, layers, kind, count, device)
                 for layers in (SHORT, LONG) for kind in kinds for count in (FEW, MANY)}
    found, beside = {}, {}
    for round_ in range(ROUNDS):
        for (layers, kind, count), pipeline in pipelines.items():
            times.ns = {}
            beside.setdefault((layers, kind, count), []).extend(pipeline.steps(times))
            for name, values in times.ns.items():
                found.setdefault((name, layers), []).extend(values)
        if rank == 0:
            print(f"measured pipelines, {round_ + 1} of {ROUNDS}", flush=True)
    schedules.record_function = times.recorded
    samples = []
    for name in ("forward", "backward", "backward_input", "backward_weight"):
        samples += call_and_layer(name, found[name, SHORT], found[name, LONG])
    if world > 1:
        samples.append(host_sample("message", quantiles(found["message", SHORT], 200)))
    if rank == world - 1:
        samples.append(host_sample("loss", losses_of(found)))
    return samples + schedule_samples(pipelines, beside)


def schedule_samples(pipelines, beside):
    """What the schedules take beside their actions: an action, and a step."""
    actions, steps = [], []
    for (layers, kind, count), pipeline in pipelines.items():
        if count != FEW:
            continue
        more = pipelines[layers, kind, MANY].actions - pipeline.actions
        few, many = sorted(beside[layers, kind, FEW]), sorted(beside[layers, kind, MANY])
        an_action = [max(1.0, (b - a) / more) for a, b in zip(few, many)]
        actions += an_action
        steps += [max(1.0, a - pipeline.actions * ns) for a, ns in zip(few, an_action)]
    return [host_sample("action", quantiles(actions, 200)), host_sample("step", quantiles(steps, 200))]


class Laps:
    """Times between calls of lap(), by name."""

    def __init__(self):
        self.ns = {}

    def start(self):
        self.last = time.perf_counter_ns()

    def lap(self, name):
        now = time.perf_counter_ns()
        self.ns.setdefault(name, []).append(max(1, now - self.last))
        self.last = now


class Script:
    """A training of one process: laps.ns has {"zero_grad": [ns], "forward": ..., "backward": ..., "optimizer": ...}."""

    def __init__(self, device, layers, half=None, optimizer_class=torch.optim.SGD, wrapped=lambda model: model,
                 block=None):
        parts, shape = [], (ROWS, TOKENS, WIDTH) if block else (ROWS, WIDTH)
        for _ in range(layers):
            if block:
                parts += MODULES[block]({"kind": block, **BLOCKS[block]}, device)
            else:
                parts += [nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU()]
        model = nn.Sequential(*parts)
        self.device, self.half = device, half
        self.optimizer = optimizer_class(model.parameters(), lr=0.0, foreach=True)
        self.model = wrapped(model)
        self.x, self.target = (torch.zeros(shape, device=device) for _ in range(2))
        self.scaler = torch.amp.GradScaler(device.type) if half == torch.float16 else None
        self.laps = Laps()

    def step(self, laps):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        laps.start()
        self.optimizer.zero_grad()
        laps.lap("zero_grad")
        with torch.autocast(self.device.type, dtype=self.half) if self.half else contextlib.nullcontext():
            output = self.model(self.x)
            laps.lap("forward")
            loss = nn.functional.mse_loss(output, self.target)
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        laps.lap("backward")
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        laps.lap("optimizer")

    def sorted(self, kind):
        return sorted(self.laps.ns[kind])


def measure(scripts):
    """In turns, so that a slow moment of the host meets all of them."""
    for _ in range(ROUNDS):
        for script in scripts:
            for step in range(WARMUP + PLAIN_STEPS):
                script.step(script.laps if step >= WARMUP else Laps())


def layer_samples(kind, short, long, name=None):
    return call_and_layer(name or kind, short.laps.ns[kind], long.laps.ns[kind])


def ddp_script(device, cap_mb):
    """Of LONG layers, whose weights are larger than a bucket of 0.01 MiB and smaller than the first one of PyTorch.
    Nothing is copied back: gradients are views."""
    ids = [device.index] if device.type == "cuda" else None
    return Script(device, LONG, wrapped=lambda model: DistributedDataParallel(model, ids, bucket_cap_mb=cap_mb,
                                                                              gradient_as_bucket_view=True))


def ddp_samples(plain, one, many):
    """Of scripts without DDP, with one bucket for all layers, and with one for each."""
    def more(kind, script, than):
        return [a - b for a, b in zip(script.sorted(kind), than.sorted(kind))]

    all_reduces = [max(1.0, ns / (LONG - 1)) for ns in more("backward", many, one)]
    hooks = [max(1.0, (ns - all_reduce) / (2 * LONG)) for ns, all_reduce in
             zip(more("backward", one, plain), all_reduces)]
    return [host_sample("ddp_forward", [max(1.0, ns) for ns in more("forward", one, plain)]),
            host_sample("ddp_all_reduce", all_reduces), host_sample("ddp_hook", hooks)]


def scaler_samples(amp, scaled):
    """What GradScaler takes in the backward (its scale) and around the optimizer."""
    without, with_it = ([a + b for a, b in zip(script.sorted("optimizer"), script.sorted("backward"))]
                        for script in (amp, scaled))
    return [host_sample("scaler", [max(1.0, b - a) for a, b in zip(without, with_it)])]


def plain_samples(rank, device):
    half = torch.bfloat16
    short, long, short_amp, long_amp = (Script(device, layers, dtype) for dtype in (None, half)
                                        for layers in (SHORT, LONG))
    short_adam, long_adam = (Script(device, layers, optimizer_class=torch.optim.Adam) for layers in (SHORT, LONG))
    one_bucket, many_buckets = ddp_script(device, None), ddp_script(device, 0.01)
    scaled = Script(device, SHORT, torch.float16)
    measure([short, long, short_amp, long_amp, short_adam, long_adam, one_bucket, many_buckets, scaled])
    samples = []
    for kind in ("forward", "backward"):
        samples += layer_samples(kind, short, long, "plain_" + kind)
        samples += layer_samples(kind, short_amp, long_amp, f"plain_{kind}_amp")
    samples += layer_samples("optimizer", short, long) + layer_samples("zero_grad", short, long)
    samples += layer_samples("optimizer", short_adam, long_adam, "optimizer_adam")
    samples += ddp_samples(long, one_bucket, many_buckets) + scaler_samples(short_amp, scaled)
    if rank == 0:
        print("measured scripts of one process", flush=True)
    return samples


def block_samples(device):
    """Of blocks of transformers: what one more takes."""
    samples = []
    for block in BLOCKS:
        for half, name in ((None, ""), (torch.bfloat16, "_amp")):
            short, long = (Script(device, layers, half, block=block) for layers in (SHORT, LONG))
            measure([short, long])
            for kind in ("forward", "backward"):
                each = zip(short.sorted(kind), long.sorted(kind))
                ns = [max(1.0, (b - a) / (LONG - SHORT)) for a, b in each]
                samples.append(host_sample(f"plain_{kind}{name}_{block}", ns))
    return samples


def data_parallel_samples(gpus):
    """By rank 0 on all GPUs, while the others do nothing."""
    def wrapped(model):
        return nn.DataParallel(model, device_ids=list(range(gpus)))

    short, long = (Script(torch.device("cuda", 0), layers, wrapped=wrapped) for layers in (SHORT, LONG))
    measure([short, long])
    per_gpu = ([ns / gpus for ns in script.laps.ns["forward"]] for script in (short, long))
    return call_and_layer("data_parallel", *per_gpu)


def samples_of(rank, device, asked, barrier):
    if device.type == "cpu":
        torch.set_num_threads(1)
    samples = []
    if device.type == "cuda" or asked["workers"] > 1:  # Gloo sends nothing to itself
        samples = pipeline_samples(rank, asked["workers"], device)
    samples += plain_samples(rank, device) + block_samples(device)
    if device.type == "cuda" and asked["workers"] > 1:
        barrier.wait()
        if rank == 0:
            samples += data_parallel_samples(asked["workers"])
        barrier.wait()
    return samples


def answer(asked):
    samples = []
    if not asked["versions_only"]:
        # The last rank has every kind of action in stages that are not the model's first.
        with Ranks(asked["device"], asked["workers"], asked["wait_limit_s"]) as ranks:
            of_ranks = ranks.run(samples_of, asked)
            known = {sample["name"] for sample in of_ranks[-1]}
            samples = of_ranks[-1] + [sample for sample in of_ranks[0] if sample["name"] not in known]
    return {"environment": environment_of(asked["device"]), "samples": samples}


if __name__ == "__main__":
    serve(answer)
