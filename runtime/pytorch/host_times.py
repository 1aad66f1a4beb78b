#!/usr/bin/env python3
"""What Python's thread takes to issue the parts of a pipeline's step: samples of pdl-calibrate's probe `host`.

  pdl-calibrate --python python3 ...      starts   python3 host_times.py ASKED.json ANSWER.json

ASKED: {"device": "cuda"|"cpu", "workers": N, "wait_limit_s": S, "versions_only": false}. ANSWER: {"samples": [...]} as
samples.json has them, and {"environment": {...}}, the versions.

Pipelines of torch.distributed.pipelining with layers so small that a step is nothing but host: each action of
_PipelineScheduleRuntime (forward, whole backward, input gradient, weight gradient, send, receive) is timed where PyTorch
itself puts a name on it for its profiler. Of stages of 2 and of 6 layers: what 4 layers more take, a fourth of it a
layer, and what is left of 2, the call. The whole step, less its actions and the optimizer's: what a step takes beside
them. On one GPU there are no messages.

  python_forward, python_forward_layer, python_backward, ..., python_backward_input, ..., python_backward_weight, ...,
  python_message (one batch_isend_irecv), python_step

Left out: the optimizer, which pdl-calibrate measures in C++ (its kernels are the same), and hosts that other work slows.
"""

import ends_with_parent  # noqa: F401

import contextlib
import datetime
import json
import os
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

from train import answers_of, environment_of, told

WIDTH, ROWS, MICROBATCHES, CHUNKS = 64, 16, 8, 2
SHORT, LONG = 2, 6  # layers of a stage
WARMUP, STEPS = 5, 25
ACTIONS = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight", "SEND_F": "message",
           "SEND_B": "message", "RECV_F": "message", "RECV_B": "message"}


class ActionTimes:
    """In the place of record_function in torch.distributed.pipelining.schedules: how long each action takes."""

    def __init__(self):
        self.on = False
        self.ns = {}

    @contextlib.contextmanager
    def __call__(self, name):
        begin = time.perf_counter_ns()
        yield
        end = time.perf_counter_ns()
        found = re.fullmatch(r"PP:(\d+)([A-Z_]+?)(\d+)", name)
        if not self.on or not found:
            return
        self.all_ns += end - begin
        stage, action = int(found[1]), found[2]
        if action in ACTIONS and not (stage == 0 and action in ("I", "W")):  # of the first stage I is nothing, W all
            self.ns.setdefault(ACTIONS[action], []).append(end - begin)

    def begin_step(self):
        self.all_ns = 0


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


def times_of(rank, world, layers, schedule_class, device, times):
    """Of the measured steps: actions into `times`; what each step takes beside them."""
    stages = stages_of(rank, world, layers, device)
    schedule = schedule_class(stages, MICROBATCHES, loss_fn=nn.functional.mse_loss, scale_grads=False)
    parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.0, foreach=True)
    batch = torch.zeros(MICROBATCHES * ROWS, WIDTH, device=device)
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
        begin = time.perf_counter_ns()
        optimizer.zero_grad()
        schedule.step(*arguments, target=target, losses=[], return_outputs=False)
        taken = time.perf_counter_ns() - begin
        optimizer.step()
        if times.on:
            beside.append(max(1, taken - times.all_ns))
    times.on = False
    return beside


def host_sample(name, values_ns):
    """The first value stands in as the warm-up that was dropped before it."""
    values = [round(value / 1e3, 4) for value in values_ns]
    return {"probe": "host", "name": "python_" + name, "implementation": "autograd", "unit": "us", "warmup": 1,
            "values": [values[0], *values]}


def call_and_layer(name, short, long):
    """Quantile by quantile, so that a slow moment of the one is not taken from a fast one of the other."""
    count = min(len(short), len(long), 200)

    def quantiles(values):
        values = sorted(values)
        return [values[(2 * index + 1) * len(values) // (2 * count)] for index in range(count)]

    short, long = quantiles(short), quantiles(long)
    layer = [max(1.0, (b - a) / (LONG - SHORT)) for a, b in zip(short, long)]
    call = [max(1.0, a - SHORT * of_layer) for a, of_layer in zip(short, layer)]
    return [host_sample(name, call), host_sample(name + "_layer", layer)]


def samples_of(rank, world, device):
    times = ActionTimes()
    schedules.record_function = times
    found, beside = {}, []
    for layers in (SHORT, LONG):
        for schedule_class in (schedules.ScheduleInterleaved1F1B, schedules.ScheduleInterleavedZeroBubble):
            times.ns = {}
            beside += times_of(rank, world, layers, schedule_class, device, times)
            for kind, values in times.ns.items():
                found.setdefault((kind, layers), []).extend(values)
            if rank == 0:
                print(f"{schedule_class.__name__}, {layers} layers", flush=True)
    samples = []
    for kind in ("forward", "backward", "backward_input", "backward_weight"):
        samples += call_and_layer(kind, found[kind, SHORT], found[kind, LONG])
    if world > 1:
        samples.append(host_sample("message", found["message", SHORT][:200]))
    return samples + [host_sample("step", beside)]


def rank_main(rank, asked, rendezvous_file, connection, _):
    cuda, world = asked["device"] == "cuda", asked["workers"]
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    try:
        if cuda:
            torch.cuda.set_device(rank)
        else:
            torch.set_num_threads(1)
        dist.init_process_group(
            "nccl" if cuda else "gloo", init_method="file://" + rendezvous_file, rank=rank, world_size=world,
            timeout=datetime.timedelta(seconds=asked["wait_limit_s"]), **({"device_id": device} if cuda else {}),
        )
        connection.send(("done", samples_of(rank, world, device)))
    except Exception:  # noqa: BLE001  the parent says it
        connection.send(("broken", told(sys.exc_info())))
    os._exit(0)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    answer = {"environment": environment_of(asked["device"]), "samples": []}
    if not asked["versions_only"]:
        # The last rank has every kind of action in stages that are not the model's first.
        answer["samples"] = answers_of(rank_main, asked)[-1][0]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main()
