#!/usr/bin/env python3
"""Trains what plans of pdl-run say with PyTorch's own programs, and measures it.

  pdl-run --program pytorch --schedule 1f1b --gpus 2 ...     starts   python3 train.py QUESTION ANSWER    (answering.py)

  plan["program"]     pipeline        torch.distributed.pipelining, a process a GPU            (pipeline.py)
                      one_thread      one process for one GPU, or for all, split by layers     (one_thread.py)
                      ddp             DistributedDataParallel, a process a GPU                 (replicas.py)
                      data_parallel   DataParallel, one process                                (replicas.py)

Memory is the most in a measured step, and apart from it the most in the warm-up, in the first steps of which PyTorch's
DDP needs more: it makes its buckets anew while NCCL's watchdog holds the old ones. Steps are timed from after a barrier with idle devices to idle devices again. Recorded steps come after the measured
ones. The answer is a RunRecord of runtime/measure/run_record.hpp and the versions.

Units: nanoseconds of the clock of the day (time.time_ns), which all processes of a host share.
"""

import ends_with_parent  # noqa: F401

import math
import sys
import time
import warnings

warnings.filterwarnings("ignore")  # such as that NumPy is not there, of which nothing here has need
try:
    import torch
    from answering import Failed, Refused, environment_of, serve
    from ranks import Ranks
    from training import MODULES
except (ImportError, OSError) as problem:
    print(problem, file=sys.stderr)
    sys.exit(4)  # as runtime/pytorch/interpreter.cpp knows it


def program_of(plan, rank, device):
    """Imported where it is needed: what a program of one thread has no need of takes a second."""
    if plan["program"] == "pipeline":
        from pipeline import Pipeline as Program
    elif plan["program"] == "one_thread":
        from one_thread import OneThread as Program
    elif plan["program"] == "ddp":
        from replicas import Ddp as Program
    else:
        from replicas import DataParallel as Program
    return Program(plan, rank, device)


def synchronize(devices):
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


class Measurement:
    """What one process knows of its steps: (begin, end, skipped) of each, losses, and the tasks of recorded ones."""

    def __init__(self, program, barrier):
        self.program, self.barrier = program, barrier
        self.losses = []

    def interval(self):
        devices = self.program.recorder.devices
        synchronize(devices)
        self.barrier.wait()
        begin = time.time_ns()
        self.program.step()
        synchronize(devices)
        return begin, time.time_ns()

    def step(self):
        before = self.program.precision.scale()
        return self.finish(self.interval(), before)

    def finish(self, interval, scale_before):
        self.losses.append(self.program.loss())
        return [*interval, self.program.precision.scale() < scale_before]

    def recorded_step(self, plan, rank):
        before = self.program.precision.scale()
        interval, groups = self.program.recorder.record(self.interval)
        spans = self.program.spans(groups)
        spans |= {key: [slept] for key, slept in self.program.recorder.slept.items()}
        return self.finish(interval, before), times_of_tasks(plan, rank, spans)


def own_tasks(plan, rank):
    """Of the process: where there is one alone, all."""
    return [task for task in plan["tasks"] if plan["processes"] == 1 or task["worker"] == rank]


def times_of_tasks(plan, rank, spans):
    """[start, end] of each task of this process, in the order of the plan. One optimizer has all stages of a GPU, and on
    the CPU of all: its time is cut by their parameters."""
    spans = {key: list(found) for key, found in spans.items()}

    def optimizer_of(task):
        own = ("optimizer", task["worker"])
        return own if own in spans else ("optimizer", 0)

    own, total, done = own_tasks(plan, rank), {}, {}
    several = plan["program"] in ("pipeline", "one_thread")  # an optimizer of stages
    for task in own:
        if task["kind"] == "optimizer" and several:
            key = optimizer_of(task)
            total[key] = total.get(key, 0) + plan["stages"][task["stage"]]["parameters"]
    times = []
    for task in own:
        if task["kind"] == "optimizer" and several:
            key = optimizer_of(task)
            (start, end), before = spans[key][0], done.get(key, 0)
            done[key] = before + plan["stages"][task["stage"]]["parameters"]
            length, all_ = end - start, max(1, total[key])
            times.append([start + length * before // all_, start + length * done[key] // all_])
            continue
        found = spans[(task["kind"], task["stage"], task["microbatch"], task["part"])]
        times.append(list(found.pop(0) if len(found) > 1 else found[0]))
    return times


WATCHDOG_S = 0.3  # NCCL's looks at what has ended each 0.1 s: until then it holds DDP's buckets of the first step


def reset_peak_memory(devices):
    for device in devices:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)


def peak_memory(devices):
    return [torch.cuda.max_memory_allocated(device) for device in devices if device.type == "cuda"]


def train(rank, device, plan, barrier):
    program = program_of(plan, rank, device)
    reset_peak_memory(program.recorder.devices)
    measurement = Measurement(program, barrier)
    warmup, steps, of_warmup = [], [], []
    for index in range(plan["warmup"] + plan["steps"]):
        if index == plan["warmup"]:
            of_warmup = peak_memory(program.recorder.devices)
            time.sleep(WATCHDOG_S)
            reset_peak_memory(program.recorder.devices)
        (warmup if index < plan["warmup"] else steps).append(measurement.step())
        if rank == 0:
            print(f"step {index + 1}", flush=True)
    memory = peak_memory(program.recorder.devices)
    recorded = [measurement.recorded_step(plan, rank) for _ in range(plan["recorded_steps"])]
    return {"warmup": warmup, "steps": steps, "recorded": recorded, "losses": measurement.losses, "memory": memory,
            "memory_of_warmup": of_warmup}


def joined(intervals):
    """Of the same step of all ranks: from the first begin to the last end."""
    return [min(i[0] for i in intervals), max(i[1] for i in intervals), any(i[2] for i in intervals)]


def losses_of(answers):
    """The parts of replicas add up; of a pipeline the process with its last stage has all."""
    known = [answer["losses"] for answer in answers if answer["losses"][0] is not None]
    losses = [sum(parts) for parts in zip(*known)]
    for index, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise Failed(f"the loss of step {index} is not a finite number")
    return losses


def record_of(plan, answers):
    recorded = []
    for of_ranks in zip(*(answer["recorded"] for answer in answers)):
        times_of_ranks = [iter(times) for _, times in of_ranks]
        times = []
        for task in plan["tasks"]:
            rank = 0 if plan["processes"] == 1 else task["worker"]
            times += next(times_of_ranks[rank])
        recorded.append([joined([interval for interval, _ in of_ranks]), times, 1.0])
    for of_ranks in zip(*(answer["warmup"] + answer["steps"] for answer in answers)):
        if len({skipped for *_, skipped in of_ranks}) > 1:
            raise Failed("gradients were not finite on some ranks only, which then skipped a step that others took")
    losses = losses_of(answers)
    warmup = [joined(of_ranks) for of_ranks in zip(*(answer["warmup"] for answer in answers))]
    steps = [joined(of_ranks) for of_ranks in zip(*(answer["steps"] for answer in answers))]
    return {
        "warmup": warmup,
        "steps": steps,
        "recorded": recorded,
        "losses": losses,
        "skipped": [index for index, step in enumerate(warmup + steps) if step[2]],
        "memory": [value for answer in answers for value in answer["memory"]],
        "memory_of_warmup": [value for answer in answers for value in answer["memory_of_warmup"]],
        "process_memory": [],
        "cards": [],
        "gpus": [],
    }


class Trainer:
    """Its processes stay for the next plan that wants the same, and end before others start."""

    def __init__(self):
        self.ranks = None

    def answer(self, plan):
        unknown = {layer["kind"] for layer in plan["layers"]} - set(MODULES)
        if unknown:  # here: a rank alone would leave the others waiting
            raise Refused(f"layers of kind {', '.join(sorted(unknown))}")
        meets = plan["program"] in ("pipeline", "ddp")
        key = (plan["device"], plan["processes"], plan["wait_limit_s"], meets)
        if self.ranks is None or self.ranks.key != key or not self.ranks.processes:
            self.end()
            self.ranks = Ranks(*key)
        record = record_of(plan, self.ranks.run(train, plan))
        return {"record": record, "environment": environment_of(plan["device"])}

    def end(self):
        if self.ranks:
            self.ranks.end()


if __name__ == "__main__":
    trainer = Trainer()
    try:
        serve(trainer.answer)
    finally:
        trainer.end()
