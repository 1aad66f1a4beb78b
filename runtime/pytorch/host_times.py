#!/usr/bin/env python3
"""What Python's thread takes to issue the parts of a training step: samples of pdl-calibrate's probe `host`.

  pdl-calibrate --python python3 ...      starts   python3 host_times.py QUESTION ANSWER      (answering.py)

QUESTION: {"device": "cuda"|"cpu", "workers": N, "wait_limit_s": S, "versions_only": false}. ANSWER: {"samples": [...]}
as samples.json has them, and {"environment": {...}}, the versions.

All layers are so small that a step is nothing but host. Of models of 2 and of 6 layers: what 4 layers more take, a fourth
of it a layer, and what is left of 2, the call.

  python_forward, python_forward_layer, python_backward, ...,     torch.distributed.pipelining: each action of
  python_backward_input, ..., python_backward_weight, ...         _PipelineScheduleRuntime, where PyTorch itself puts a
  python_message (one batch_isend_irecv), python_action,          name on it for its profiler; what the schedule takes
  python_step                                                     beside them, an action and a step, from steps of
                                                                  4 and of 8 micro-batches

  python_plain_forward, ..., python_plain_backward, ...           model(x), of a script of one process; the loss and
                                                                  loss.backward()
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
except (ImportError, OSError) as problem:
    print(problem, file=sys.stderr)
    sys.exit(4)  # as runtime/pytorch/interpreter.cpp knows it

from torch.nn.parallel import DistributedDataParallel

from answering import environment_of, serve
from ranks import Ranks

WIDTH, ROWS, CHUNKS = 64, 16, 2
FEW, MANY = 4, 8  # micro-batches
SHORT, LONG = 2, 6  # layers of a stage
WARMUP, STEPS, PLAIN_STEPS = 5, 25, 200
ACTIONS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight", "SEND_F": "message",
           "SEND_B": "message", "RECV_F": "message", "RECV_B": "message"}


class ActionTimes:
    """In the place of record_function in torch.distributed.pipelining.schedules: how long each action takes."""

    def __init__(self, recorded):
        self.on = False
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
        if action in ACTIONS and not (stage == 0 and action in ("I", "W")):  # of the first stage I is nothing, W all
            self.ns.setdefault(ACTIONS[action], []).append(end - begin)
        self.own_ns += time.perf_counter_ns() - end + begin - entered

    def begin_step(self):
        self.all_ns = self.own_ns = self.count = 0


def stages_of(rank, world, layers, device):
    stages = []
    activation = torch.empty(ROWS, WIDTH, device="meta")
    for chunk in range(CHUNKS):
        modules = []
        for _ in range(layers):
            modules += [nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU()]
        index = chunk * world + rank
        stages.append(PipelineStage(nn.Sequential(*modules), index, CHUNKS * world, device, input_args=activation,
                                    output_args=activation))
    return stages


def times_of(rank, world, layers, schedule_class, microbatches, device, times):
    """Of the measured steps: actions into `times`; what each step takes beside them, and how many they are."""
    stages = stages_of(rank, world, layers, device)
    schedule = schedule_class(stages, microbatches, loss_fn=nn.functional.mse_loss, scale_grads=False)
    parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.0, foreach=True)
    batch = torch.zeros(microbatches * ROWS, WIDTH, device=device)
    arguments = (batch,) if rank == 0 else ()
    target = batch if rank == world - 1 else None
    beside = []
    for step in range(WARMUP + STEPS):
        if device.type == "cuda":
            torch.cuda.synchronize()
        dist.barrier()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.on = step >= WARMUP
        times.begin_step()
        optimizer.zero_grad()
        begin = time.perf_counter_ns()
        schedule.step(*arguments, target=target, losses=[], return_outputs=False)
        taken = time.perf_counter_ns() - begin
        optimizer.step()
        if times.on:
            beside.append(taken - times.all_ns - times.own_ns)
    times.on = False
    return sorted(beside), times.count


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


def pipeline_samples(rank, world, device):
    times = ActionTimes(schedules.record_function)
    schedules.record_function = times
    found, beside = {}, {}
    for layers in (SHORT, LONG):
        for schedule_class in (schedules.ScheduleInterleaved1F1B, schedules.ScheduleInterleavedZeroBubble):
            for microbatches in (FEW, MANY):
                times.ns = {}
                beside[microbatches] = times_of(rank, world, layers, schedule_class, microbatches, device, times)
                for kind, values in times.ns.items():
                    found.setdefault((kind, layers), []).extend(values)
            if rank == 0:
                print(f"{schedule_class.__name__}, {layers} layers", flush=True)
    schedules.record_function = times.recorded
    samples = []
    for kind in ("forward", "backward", "backward_input", "backward_weight"):
        samples += call_and_layer(kind, found[kind, SHORT], found[kind, LONG])
    if world > 1:
        samples.append(host_sample("message", quantiles(found["message", SHORT], 200)))
    (few, fewer_actions), (many, more_actions) = beside[FEW], beside[MANY]
    actions = [max(1.0, (b - a) / (more_actions - fewer_actions)) for a, b in zip(few, many)]
    steps = [max(1.0, a - fewer_actions * action) for a, action in zip(few, actions)]
    return samples + [host_sample("action", actions), host_sample("step", steps)]


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


def plain_times(device, layers, half, optimizer_class, wrapped=lambda model: model):
    """Of the measured steps of a script of one process: {"forward": [ns], "backward": ..., "optimizer": ...}."""
    parts = []
    for _ in range(layers):
        parts += [nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU()]
    model = nn.Sequential(*parts)
    optimizer = optimizer_class(model.parameters(), lr=0.0, foreach=True)
    model = wrapped(model)
    x, target = torch.zeros(ROWS, WIDTH, device=device), torch.zeros(ROWS, WIDTH, device=device)
    scaler = torch.amp.GradScaler(device.type) if half == torch.float16 else None
    laps = Laps()
    for step in range(WARMUP + PLAIN_STEPS):
        if step == WARMUP:
            laps.ns = {}
        if device.type == "cuda":
            torch.cuda.synchronize()
        laps.start()
        optimizer.zero_grad()
        laps.lap("zero_grad")
        with torch.autocast(device.type, dtype=half) if half else contextlib.nullcontext():
            output = model(x)
            laps.lap("forward")
            loss = nn.functional.mse_loss(output, target)
        (scaler.scale(loss) if scaler else loss).backward()
        laps.lap("backward")
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        laps.lap("optimizer")
    return laps.ns


def ddp_samples(device, plain):
    """Of LONG layers: `plain` without DDP; with one bucket for all; with one for each layer. Their weights are larger
    than a bucket of 0.01 MiB and smaller than the first one of PyTorch. Nothing is copied back: gradients are views."""
    def wrapped(cap_mb):
        ids = [device.index] if device.type == "cuda" else None
        return lambda model: DistributedDataParallel(model, ids, bucket_cap_mb=cap_mb, gradient_as_bucket_view=True)

    one, many = (plain_times(device, LONG, None, torch.optim.SGD, wrapped(cap_mb)) for cap_mb in (None, 0.01))

    def more(kind, times, than):
        return [a - b for a, b in zip(sorted(times[kind]), sorted(than[kind]))]

    all_reduces = [max(1.0, ns / (LONG - 1)) for ns in more("backward", many, one)]
    hooks = [max(1.0, (ns - all_reduce) / (2 * LONG)) for ns, all_reduce in
             zip(more("backward", one, plain), all_reduces)]
    return [host_sample("ddp_forward", [max(1.0, ns) for ns in more("forward", one, plain)]),
            host_sample("ddp_all_reduce", all_reduces), host_sample("ddp_hook", hooks)]


def plain_samples(rank, device):
    sgd, samples = torch.optim.SGD, []
    for half, end in ((None, ""), (torch.bfloat16, "_amp")):
        short, long = (plain_times(device, layers, half, sgd) for layers in (SHORT, LONG))
        for kind in ("forward", "backward"):
            samples += call_and_layer(f"plain_{kind}{end}", short[kind], long[kind])
        amp_ns = sorted(short["backward"])  # in the end that of bf16
        if half is None:
            for kind in ("optimizer", "zero_grad"):
                samples += call_and_layer(kind, short[kind], long[kind])
            plain, sgd_ns = long, sorted(short["optimizer"])
    short, long = (plain_times(device, layers, None, torch.optim.Adam) for layers in (SHORT, LONG))
    samples += call_and_layer("optimizer_adam", short["optimizer"], long["optimizer"])
    samples += ddp_samples(device, plain)
    scaled = plain_times(device, SHORT, torch.float16, sgd)
    more_ns = [sum(times) for times in zip(sorted(scaled["optimizer"]), sorted(scaled["backward"]))]
    samples.append(host_sample("scaler", [max(1.0, ns - a - b) for ns, a, b in zip(more_ns, sgd_ns, amp_ns)]))
    if rank == 0:
        print("a script of one process", flush=True)
    return samples


def data_parallel_samples(gpus):
    """By rank 0 on all GPUs, while the others do nothing."""
    def wrapped(model):
        return nn.DataParallel(model, device_ids=list(range(gpus)))

    device = torch.device("cuda", 0)
    short, long = (plain_times(device, layers, None, torch.optim.SGD, wrapped)["forward"] for layers in (SHORT, LONG))
    return call_and_layer("data_parallel", [ns / gpus for ns in short], [ns / gpus for ns in long])


def samples_of(rank, device, asked, barrier):
    if device.type == "cpu":
        torch.set_num_threads(1)
    samples = pipeline_samples(rank, asked["workers"], device) + plain_samples(rank, device)
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
