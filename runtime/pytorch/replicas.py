"""DistributedDataParallel, a process a GPU, and DataParallel, one process for all.

  out = model(x); loss_of(out, target).backward()      of each micro-batch; model.no_sync() where gradients stay here

Gradients are averaged over the replicas: the loss of a replica with an equal share of the batch has weight 1. What a
recorded step of DDP is cut into: buckets.py.

DataParallel's kernels are told apart by their names: copies between GPUs, NCCL's Broadcast and Reduce, the rest.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn

from answering import Refused
from buckets import Buckets, wrapped_by_ddp
from recomputation import Recomputation
from recording import Recorder, span
from training import Precision, inputs_of, loss_of, modules_of, optimizer_of, targets_of


class Replicas:
    """What both have: micro-batches one after another, each forward and backward, then the optimizer."""

    def __init__(self, plan, rank, device, devices):
        self.plan, self.rank = plan, rank
        self.precision = Precision(plan, device)
        self.recorder = Recorder(devices)
        torch.manual_seed(plan["seed"])
        self.layers = modules_of(plan["layers"], device)
        self.optimizer = optimizer_of(plan, self.layers.parameters())
        own = [task for task in plan["tasks"] if task["worker"] == rank]
        self.sleeps = {task["microbatch"]: task["sleep_ns"] for task in own if task["kind"] == "sleep"}

    def data(self, device, rows):
        """`rows`: of each micro-batch, what is cut for this process; of those of the others nothing is kept."""
        first = sum(sum(of_replicas[: self.rank]) for of_replicas in self.plan["replica_rows"])
        whole = (of_plan(self.plan, device) for of_plan in (inputs_of, targets_of))
        return [tensor[first : first + sum(rows)].clone().split(rows) for tensor in whole]

    def sleep(self, microbatch):
        if microbatch in self.sleeps:
            self.recorder.sleep(self.key("sleep", microbatch), self.sleeps[microbatch])

    def step(self):
        self.optimizer.zero_grad()
        losses = []
        self.sleep(-1)
        for microbatch in range(len(self.inputs) * self.plan["accum"]):
            losses.append(self.train(microbatch, self.inputs[microbatch % len(self.inputs)],
                                     self.targets[microbatch % len(self.inputs)]))
        self.losses = losses  # those of the step before are there until now, as in a variable of a script
        self.recorder.mark(self.key("optimizer", -1))
        self.precision.step(self.optimizer)
        self.recorder.ended()

    def key(self, kind, microbatch, part=0):
        return kind, self.rank, microbatch, part


class Ddp(Replicas):
    def __init__(self, plan, rank, device):
        super().__init__(plan, rank, device, [device])
        self.model = wrapped_by_ddp(self.layers, plan, device)
        self.world = dist.get_world_size()
        self.inputs, self.targets = self.data(device, [rows[rank] for rows in plan["replica_rows"]])
        self.exchanges = {task["microbatch"] for task in plan["tasks"] if task["kind"] == "bucket_copy_in"}
        self.recomputation = Recomputation(plan, rank, self.layers, self.recorder, self.key)
        self.buckets = Buckets(plan["buckets"], self.layers, self.recorder, self.key,
                               any(task["kind"] == "all_reduce" for task in plan["tasks"]), self.recomputation)

    def train(self, microbatch, x, target):
        exchanges = microbatch in self.exchanges
        weight = len(x) * self.world / (self.plan["batch"] * self.plan["accum"])
        with contextlib.nullcontext() if exchanges else self.model.no_sync():
            self.recorder.mark(self.key("forward", microbatch))
            self.recomputation.microbatch = microbatch
            with self.precision.autocast():
                output = self.model(x)
            self.recorder.ended()
            self.sleep(microbatch)
            self.recomputation.begins(microbatch)
            with self.precision.autocast():
                loss = loss_of(output, target, weight)
            self.buckets.microbatch = microbatch if exchanges else None
            self.precision.scaled(loss).backward()
            self.recorder.ended()
        self.buckets.exchanged()
        return loss.detach()

    def loss(self):
        """The part of this rank: the parts add up to that of the batch."""
        return float(sum(loss.item() for loss in self.losses)) / self.world

    def spans(self, groups):
        spans = {key: [span(kernels)] for key, kernels in groups.kernels.items() if key[0] != "filled"}
        self.buckets.add_spans(groups, spans)
        return spans | groups.spans_of_posted(self.recorder.posted)


class MarkedReplica(nn.Module):
    """The layers, and a mark on the GPU where this replica's forward begins, and by a hook where its backward does."""

    def __init__(self, layers, program):
        super().__init__()
        self.layers, self.program = layers, [program]  # in a list: a replica has the same one

    def forward(self, x):
        program, device = self.program[0], x.device
        program.straggle(device)
        microbatch = program.microbatch
        program.recorder.mark(("forward", device.index, microbatch, 0), device)
        output = self.layers(x)
        if program.recorder.on:
            key = ("backward", device.index, microbatch, 0)
            output.register_hook(lambda _: program.recorder.mark(key, device))
        return output


class DataParallel(Replicas):
    def __init__(self, plan, rank, device):
        if device.type == "cpu":
            raise Refused("DataParallel on the CPU: PyTorch's has no replicas there")
        used = sum(rows > 0 for rows in plan["replica_rows"][0])
        devices = [torch.device("cuda", index) for index in range(used)]
        super().__init__(plan, rank, device, devices)
        self.straggler = next(((task["worker"], task["sleep_ns"]) for task in plan["tasks"] if
                               task["kind"] == "sleep" and task["microbatch"] < 0), None)
        self.sleeps.pop(-1, None)
        self.model = nn.DataParallel(MarkedReplica(self.layers, self), device_ids=list(range(used)))
        self.inputs, self.targets = self.data(device, [sum(rows) for rows in plan["replica_rows"]])

    def straggle(self, device):
        if self.straggler and device.index == self.straggler[0] and self.microbatch == 0:
            self.recorder.sleep(("sleep", device.index, -1, 0), self.straggler[1])

    def train(self, microbatch, x, target):
        self.microbatch = microbatch
        for device in self.recorder.devices:
            self.recorder.mark(("begin", device.index, microbatch, 0), device)
        with self.precision.autocast():
            output = self.model(x)
            self.recorder.mark(("loss", 0, microbatch, 0))
            loss = loss_of(output, target, len(x) / (self.plan["batch"] * self.plan["accum"]))
        self.output = output  # there until the next one is
        self.sleep(microbatch)
        self.precision.scaled(loss).backward()
        return loss.detach()

    def loss(self):
        return float(sum(loss.item() for loss in self.losses))

    def spans(self, groups):
        """Tasks of both ends of a copy, and the two scatters of a micro-batch, have a span each, in their order."""
        spans, alone = {}, len(self.recorder.devices) == 1
        for key, kernels in groups.kernels.items():
            kind, gpu, microbatch, _ = key
            copies = [kernel for kernel in kernels if "PtoP" in kernel[2]]
            collectives = [kernel for kernel in kernels if "nccl" in kernel[2]]
            rest = [kernel for kernel in kernels if kernel not in copies and kernel not in collectives]
            if kind in ("begin", "loss"):
                for other, copy in enumerate(copies):
                    for end in (0, other + 1):
                        spans.setdefault(("scatter", end, microbatch, other + 1), []).append(copy[:2])
            if kind == "forward" and copies:
                for end in (0, gpu):
                    spans[("gather", end, microbatch, gpu)] = [span(copies)]
            for kind_of_nccl, name in (("broadcast", "Broadcast"), ("reduce", "Reduce")):
                for part, kernel in enumerate(k for k in collectives if name in k[2]):
                    spans[(kind_of_nccl, gpu, microbatch, part)] = [kernel[:2]]
            after = rest
            if kind == "backward" and not alone and collectives:
                after = [kernel for kernel in rest if kernel[0] < collectives[0][0]]
                sums = [kernel for kernel in rest if kernel[0] > collectives[-1][0]]
                spans[("bucket_copy_out", gpu, microbatch, 0)] = [span(sums or collectives[-1:])]
            if kind != "begin":
                spans[key] = [span(after or kernels)]
        return spans
