#!/usr/bin/env python3
"""Trains what a plan of pdl-run says with PyTorch's own program, measures it, and writes what pdl-run reads.

  pdl-run --program pytorch --schedule 1f1b --gpus 2 ...     starts   python3 train.py PLAN.json RECORD.json

What is run: torch.distributed.pipelining, a process a GPU, as a script would write it (NCCL, on the CPU Gloo). Losses are
divided by the micro-batches, so that PyTorch need not divide gradients (scale_grads off); outputs are not gathered
(return_outputs off). Steps are timed from after a barrier with idle devices to idle devices again.

Recorded steps come after the measured ones. On GPUs a marker, a kernel of some hundred nanoseconds, stands before each
task of the compute stream; torch.profiler says when every kernel ran; the kernels between two markers are a task, the
n-th kernel of NCCL is the n-th batch of messages. On the CPU a task lasts from its call to its return, a message from
its post to the end of the wait for it.

Units: nanoseconds of the clock of the day (time.time_ns), which all processes of a host share.
"""

import ends_with_parent  # noqa: F401

import datetime
import json
import math
import os
import platform
import sys
import tempfile
import time
import traceback
import warnings

warnings.filterwarnings("ignore")  # such as that NumPy is not there, of which nothing here has need
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing
    from multiprocessing.connection import wait as any_answer
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, schedules
except (ImportError, OSError) as problem:
    print(problem, file=sys.stderr)
    sys.exit(4)  # as runtime/pytorch/interpreter.cpp knows it

MARKER = "spin_kernel"  # of torch.cuda._sleep
INPUT_IS_WRONG, CANNOT_RUN = 2, 3


class Refused(Exception):
    """PyTorch cannot run the plan; the same on every rank."""


def module_of(layer, device):
    kind = layer["kind"]
    if kind == "linear_relu":
        return [nn.Linear(layer["in"], layer["out"], device=device), nn.ReLU()]
    if kind == "gelu":
        return [nn.GELU()]
    if kind == "layer_norm":
        return [nn.LayerNorm(layer["width"], device=device)]
    raise Refused(f"layers of kind {kind}")


class Recorder:
    """The tasks and messages of this process, in the order in which they are issued, and when they ran."""

    def __init__(self, device):
        self.device = device
        self.on = False
        self.offset = 0  # micro-batches of the accumulation steps before
        self.begin()

    def begin(self):
        self.tasks = []  # (kind, stage, microbatch); on the CPU with times
        self.batches = []  # lists of the same

    def mark(self, kind, stage, microbatch):
        if not self.on:
            return None
        microbatch += self.offset if microbatch >= 0 else 0
        self.tasks.append([kind, stage, microbatch, time.time_ns(), None])
        if self.device.type == "cuda":
            torch.cuda._sleep(1)
        return self.tasks[-1]

    def ended(self, task):
        if task is not None:
            task[4] = time.time_ns()

    def post(self, messages):
        """Of a batch, before it is posted; the index by which its wait is told."""
        if not self.on or not messages:
            return None
        self.batches.append([[*message, time.time_ns(), None] for message in messages])
        return len(self.batches) - 1

    def waited(self, batch):
        if batch is not None and self.on:
            for message in self.batches[batch]:
                message[4] = time.time_ns()

    def spans(self, kernels):
        """{(kind, stage, microbatch): (start, end)}; `kernels` of a GPU: (start, end, name, stream)."""
        if self.device.type == "cpu":
            rows = self.tasks + [message for batch in self.batches for message in batch]
            return {tuple(row[:3]): (row[3], row[4] or row[3] + 1) for row in rows}
        markers = [kernel for kernel in kernels if MARKER in kernel[2]]
        messages = [kernel for kernel in kernels if "nccl" in kernel[2]]
        if len(markers) != len(self.tasks) or len(messages) != len(self.batches):
            raise RuntimeError(f"the profiler saw {len(markers)} of {len(self.tasks)} tasks and {len(messages)} of "
                               f"{len(self.batches)} messages")
        stream = markers[0][3] if markers else None
        found = {}
        for index, task in enumerate(self.tasks):
            after = markers[index][1]
            before = markers[index + 1][0] if index + 1 < len(markers) else float("inf")
            own = [k for k in kernels if k[3] == stream and after <= k[0] < before and MARKER not in k[2]]
            if own:
                found[tuple(task[:3])] = (own[0][0], max(kernel[1] for kernel in own))
            else:
                found[tuple(task[:3])] = (after, after)
        for kernel, batch in zip(messages, self.batches):
            for message in batch:
                found[tuple(message[:3])] = (kernel[0], kernel[1])
        return found


def record_messages(recorder):
    """Each batch of messages tells the recorder, and so does the wait for it."""
    post, wait = schedules._batch_p2p, schedules._wait_batch_p2p

    def recorded_post(operations, desc=None):
        batch = recorder.post([operation.pdl for operation in operations if hasattr(operation, "pdl")])
        works = post(operations, desc)
        for work in works:
            waits[id(work)] = (work, batch)
        return works

    def recorded_wait(works):
        wait(works)
        for work in works:
            recorder.waited(waits.pop(id(work), (None, None))[1])

    waits = {}
    schedules._batch_p2p, schedules._wait_batch_p2p = recorded_post, recorded_wait


class RecordedStage(PipelineStage):
    """A stage that tells the recorder what it is asked to do."""

    recorder = None

    def messages(self, kind, microbatch, operations):
        for operation in operations:
            operation.pdl = (kind, self.stage_index, microbatch + self.recorder.offset)
        return operations

    def get_fwd_recv_ops(self, fwd_chunk_id):
        return self.messages("receive_forward", fwd_chunk_id, super().get_fwd_recv_ops(fwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id):
        return self.messages("send_forward", fwd_chunk_id, super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_recv_ops(self, bwd_chunk_id):
        return self.messages("receive_backward", bwd_chunk_id, super().get_bwd_recv_ops(bwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id):
        return self.messages("send_backward", bwd_chunk_id, super().get_bwd_send_ops(bwd_chunk_id))

    def forward_one_chunk(self, fwd_chunk_id, *arguments, **keywords):
        task = self.recorder.mark("forward", self.stage_index, fwd_chunk_id)
        output = super().forward_one_chunk(fwd_chunk_id, *arguments, **keywords)
        self.recorder.ended(task)
        return output

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        # The first stage of the model has no gradient of its input: PyTorch does nothing then.
        task = None
        if full_backward or not self.is_first:
            kind = "backward" if full_backward else "backward_input"
            task = self.recorder.mark(kind, self.stage_index, bwd_chunk_id)
        super().backward_one_chunk(bwd_chunk_id, loss=loss, full_backward=full_backward, last_backward=last_backward)
        self.recorder.ended(task)

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        kind = "backward" if self.is_first else "backward_weight"
        task = self.recorder.mark(kind, self.stage_index, bwd_chunk_id)
        super().backward_weight_one_chunk(bwd_chunk_id, last_backward=last_backward)
        self.recorder.ended(task)


class Pipeline:
    """The stages of one process, and a step of training."""

    def __init__(self, plan, rank, device):
        self.plan, self.device = plan, device
        self.recorder = Recorder(device)
        rows = plan["microbatch_rows"][0]
        torch.manual_seed(plan["seed"])
        stages, modules = [], []
        count = len(plan["stages"])
        for index, stage in enumerate(plan["stages"]):
            if stage["worker"] != rank:
                continue
            layers = plan["layers"][stage["first_layer"] : stage["first_layer"] + stage["layer_count"]]
            modules.append(nn.Sequential(*[part for layer in layers for part in module_of(layer, device)]))
            into, out = (torch.empty(rows, stage[end], device="meta") for end in ("in", "out"))
            stages.append(RecordedStage(modules[-1], index, count, device, input_args=into, output_args=out))
            stages[-1].recorder = self.recorder
        record_messages(self.recorder)
        self.microbatches = len(plan["microbatch_rows"]) // plan["accum"]
        batch = rows * self.microbatches
        self.schedule = self.make_schedule(stages, rows / batch / plan["accum"])
        parameters = [parameter for module in modules for parameter in module.parameters()]
        optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[plan["optimizer"]]
        self.optimizer = optimizer(parameters, lr=plan["learning_rate"], foreach=True)
        first, last = plan["stages"][0], plan["stages"][-1]
        generator = torch.Generator(device=device).manual_seed(plan["seed"])
        data = [torch.randn(batch, first["in"], device=device, generator=generator) for _ in range(plan["accum"])]
        target = [torch.randn(batch, last["out"], device=device, generator=generator) for _ in range(plan["accum"])]
        self.data = data if first["worker"] == rank else None
        self.target = target if last["worker"] == rank else None

    def make_schedule(self, stages, scale):
        def loss(output, target):
            return nn.functional.mse_loss(output, target) * scale

        name = self.plan["pytorch_class"]
        made = schedules.get_schedule_class(name) if name else schedules._PipelineScheduleRuntime
        several = issubclass(made, schedules.PipelineScheduleMulti)
        try:
            schedule = made(stages if several else stages[0], self.microbatches, loss_fn=loss, scale_grads=False)
        except ValueError as problem:
            raise Refused(" ".join(str(problem).split())) from None
        if not name:
            with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
                file.write(self.plan["schedule_csv"])
                file.flush()
                schedule._load_csv(file.name, format="compute_only")
        return schedule

    def step(self):
        self.optimizer.zero_grad()
        self.losses = []
        for round_ in range(self.plan["accum"]):
            self.recorder.offset = round_ * self.microbatches
            arguments = () if self.data is None else (self.data[round_],)
            target = None if self.target is None else self.target[round_]
            self.schedule.step(*arguments, target=target, losses=self.losses, return_outputs=False)
        task = self.recorder.mark("optimizer", -1, -1)
        self.optimizer.step()
        self.recorder.ended(task)

    def loss(self):
        return float(sum(loss.item() for loss in self.losses)) if self.target is not None else None


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def kernels_of(profiler):
    """(start, end, name, stream) of what ran on the GPU, in the order of starts."""
    found = []
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0:
            start = event.start_ns()
            found.append((start, start + event.duration_ns(), event.name(), event.device_resource_id()))
    return sorted(found)


def measured_step(program, device, barrier):
    synchronize(device)
    barrier.wait()
    begin = time.time_ns()
    program.step()
    synchronize(device)
    return begin, time.time_ns()


def recorded_step(program, device, barrier):
    """The step, and when its tasks ran."""
    recorder = program.recorder
    recorder.begin()
    recorder.on = True
    if device.type == "cuda":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            interval = measured_step(program, device, barrier)
        spans = recorder.spans(kernels_of(profiler))
    else:
        interval = measured_step(program, device, barrier)
        spans = recorder.spans([])
    recorder.on = False
    return interval, spans


def times_of_tasks(plan, rank, spans):
    """[start, end] of each task of this process, in the order of the plan. One optimizer has all stages of a process:
    its time is cut by their parameters."""
    own = [task for task in plan["tasks"] if task["worker"] == rank]
    optimizers = [task for task in own if task["kind"] == "optimizer"]
    total = sum(plan["stages"][task["stage"]]["parameters"] for task in optimizers)
    done, times = 0, []
    for task in own:
        if task["kind"] == "optimizer":
            start, end = spans[("optimizer", -1, -1)]
            before = done
            done += plan["stages"][task["stage"]]["parameters"]
            length = end - start
            times.append([start + length * before // total, start + length * done // total])
        else:
            times.append(list(spans[(task["kind"], task["stage"], task["microbatch"])]))
    return times


def told(error):
    """"RuntimeError: ... (train.py, line 12)": the error, where it was raised, and in which line here it came."""
    kind, value, trace = error
    frames = traceback.extract_tb(trace)
    folder = os.path.dirname(os.path.abspath(__file__))
    own = [frame for frame in frames if os.path.dirname(os.path.abspath(frame.filename)) == folder][-1]
    raised = frames[-1]
    places = [f"{os.path.basename(frame.filename)}, line {frame.lineno}" for frame in (raised, own)]
    return f"{kind.__name__}: {' '.join(str(value).split())[:500]} ({'; '.join(dict.fromkeys(places))})"


def rank_main(rank, plan, rendezvous_file, connection, barrier):
    world, cuda = plan["workers"], plan["device"] == "cuda"
    if cuda:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if plan["dtype"] == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
    try:
        dist.init_process_group(
            "nccl" if cuda else "gloo", init_method="file://" + rendezvous_file, rank=rank, world_size=world,
            timeout=datetime.timedelta(seconds=plan["wait_limit_s"]), **({"device_id": device} if cuda else {}),
        )
        program = Pipeline(plan, rank, device)
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        warmup, steps, recorded, losses = [], [], [], []
        for index in range(plan["warmup"] + plan["steps"]):
            (warmup if index < plan["warmup"] else steps).append(measured_step(program, device, barrier))
            losses.append(program.loss())
            if rank == 0:
                print(f"step {index + 1}", flush=True)
        memory = torch.cuda.max_memory_allocated() if cuda else None
        for _ in range(plan["recorded_steps"]):
            interval, spans = recorded_step(program, device, barrier)
            losses.append(program.loss())
            recorded.append((interval, times_of_tasks(plan, rank, spans)))
        answer = ("done", warmup, steps, recorded, losses, memory)
    except Refused as problem:
        answer = ("refused", str(problem))
    except Exception:  # noqa: BLE001  the parent says it
        answer = ("broken", told(sys.exc_info()))
    connection.send(answer)
    os._exit(0)  # no destroy_process_group: it can wait for a peer that has already gone


def answers_of(rank_main, asked):
    """What every rank has to say, the first word taken off; SystemExit if one is gone, refuses or fails. `rank_main`
    sends ("done", ...), ("refused", why) or ("broken", why)."""
    world = asked["workers"]
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(world, timeout=asked["wait_limit_s"])
    with tempfile.TemporaryDirectory(prefix="pdl-pytorch-") as folder:
        connections, processes = [], []
        for rank in range(world):
            ours, theirs = context.Pipe()
            process = context.Process(target=rank_main, daemon=True,
                                      args=(rank, asked, os.path.join(folder, "rendezvous"), theirs, barrier))
            process.start()
            theirs.close()
            connections.append(ours)
            processes.append(process)
        answers = [None] * world
        waiting = dict(zip(connections, range(world)))
        failure = None
        while waiting and failure is None:
            for connection in any_answer(list(waiting)):
                rank = waiting.pop(connection)
                try:
                    state, *answers[rank] = connection.recv()
                except EOFError:
                    failure = CANNOT_RUN, f"rank {rank} of PyTorch died"
                    continue
                if state == "refused":
                    failure = INPUT_IS_WRONG, f"PyTorch refuses: {answers[rank][0]}"
                elif state == "broken":
                    failure = CANNOT_RUN, f"rank {rank} of PyTorch failed: {answers[rank][0]}"
        for process in processes:
            if failure is not None:
                process.kill()
            process.join()
    if failure is not None:
        print(failure[1], file=sys.stderr)
        sys.exit(failure[0])
    return answers


def record_of(plan, answers):
    """RunRecord of runtime/measure/run_record.hpp: a step is from rank 0's begin, or the first one's, to the last end."""
    def joined(intervals):
        return [[min(begin for begin, _ in of_ranks), max(end for _, end in of_ranks), False]
                for of_ranks in zip(*intervals)]

    recorded = []
    for index in range(plan["recorded_steps"]):
        of_ranks = [answer[2][index] for answer in answers]
        interval = joined([[interval] for interval, _ in of_ranks])[0]
        by_rank = {rank: iter(times) for rank, (_, times) in enumerate(of_ranks)}
        times = [moment for task in plan["tasks"] for moment in next(by_rank[task["worker"]])]
        recorded.append([interval, times, 1.0])
    losses = next(answer[3] for answer in answers if answer[3][0] is not None)
    return {
        "warmup": joined([answer[0] for answer in answers]),
        "steps": joined([answer[1] for answer in answers]),
        "recorded": recorded,
        "losses": losses,
        "memory": [answer[4] for answer in answers if answer[4] is not None],
        "process_memory": [],
        "cards": [],
        "gpus": [],
    }


def environment_of(device):
    facts = {"python": platform.python_version(), "torch": torch.__version__}
    if device == "cuda":
        facts["cuda"] = torch.version.cuda
        facts["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return facts


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    record = record_of(plan, answers_of(rank_main, plan))
    for index, loss in enumerate(record["losses"]):
        if not math.isfinite(loss):
            print(f"the loss of step {index} is not a finite number", file=sys.stderr)
            sys.exit(CANNOT_RUN)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"record": record, "environment": environment_of(plan["device"])}, file)


if __name__ == "__main__":
    main()
