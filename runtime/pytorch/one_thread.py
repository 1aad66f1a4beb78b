"""The programs of one process and one thread: a single GPU, layers split over several, options A, B and C.

  for m, x in enumerate(inputs):
      outputs[m] = model(x)                  each layer's activation goes to where the layer is: x.to(device)
      loss_of(outputs[m], ...).backward()    in the order of the plan

A recorded step has marks before each stage's forward and, by hooks on the tensors at the boundaries of the stages,
before each stage's backward and each copy of a gradient. On the CPU, where nothing need move, a copy is a clone.
"""

import torch
from torch import nn

from recomputation import Recomputation
from recording import Recorder, span
from training import Precision, inputs_of, layers_of, loss_of, modules_of, optimizer_of, targets_of


class SplitModel(nn.Module):
    def __init__(self, plan, devices, recorder):
        super().__init__()
        self.devices, self.recorder = devices, recorder
        self.stages = nn.ModuleList(modules_of(layers_of(plan, stage), device)
                                    for stage, device in zip(plan["stages"], devices))

    def forward(self, x, microbatch):
        for index, (stage, device) in enumerate(zip(self.stages, self.devices)):
            if index > 0:
                x = self.moved(x, index, device, microbatch)
            self.recorder.mark(("forward", index, microbatch, 0), device)
            x = stage(x)
        return x

    def moved(self, x, index, device, microbatch):
        before = self.devices[index - 1]
        self.recorder.mark(("send_forward", index - 1, microbatch, 0), before)
        moved = x.clone() if device.type == "cpu" else x.to(device)
        if self.recorder.on and x.requires_grad:
            # Autograd calls the hook of a tensor when its gradient is complete: all above it has been issued by then.
            moved.register_hook(lambda _: self.recorder.mark(("send_backward", index, microbatch, 0), device))
            x.register_hook(lambda _: self.recorder.mark(("backward", index - 1, microbatch, 0), before))
        return moved


class OneThread:
    def __init__(self, plan, _, device):
        several = device.type == "cuda"
        self.devices = [torch.device("cuda", stage["worker"]) if several else device for stage in plan["stages"]]
        self.plan = plan
        self.precision = Precision(plan, device)
        self.recorder = Recorder(list(dict.fromkeys(self.devices)))
        torch.manual_seed(plan["seed"])
        self.model = SplitModel(plan, self.devices, self.recorder)
        self.recomputation = Recomputation(plan, 0, self.model, self.recorder,
                                           lambda kind, microbatch, part: (kind, 0, microbatch, part))
        self.optimizer = optimizer_of(plan, self.model.parameters())
        rows = plan["microbatch_rows"][: len(plan["microbatch_rows"]) // plan["accum"]]
        self.inputs = inputs_of(plan, self.devices[0]).split(rows)
        self.targets = targets_of(plan, self.devices[-1]).split(rows)
        calls = (("forward", 0), ("backward", len(self.devices) - 1))  # which parts of a backward are, too
        self.actions = [(task["kind"], task["stage"], task["microbatch"], task["sleep_ns"]) for task in plan["tasks"]
                        if ((task["kind"], task["stage"]) in calls and task["part"] == 0) or task["kind"] == "sleep"]

    def step(self):
        self.optimizer.zero_grad()
        losses, outputs = [], {}
        for kind, stage, microbatch, sleep_ns in self.actions:
            place = microbatch % len(self.inputs)
            if kind == "sleep":
                self.recorder.sleep(("sleep", stage, microbatch, 0), sleep_ns)
            elif kind == "forward":
                self.recomputation.microbatch = microbatch
                with self.precision.autocast():
                    outputs[microbatch] = self.model(self.inputs[place], microbatch)
            else:
                losses.append(self.backward(outputs.pop(microbatch), self.targets[place], microbatch))
        self.losses = losses  # those of the step before are there until now, as in a variable of a script
        for worker, device in enumerate(self.recorder.devices):
            self.recorder.mark(("optimizer", worker), device)
        self.precision.step(self.optimizer)
        self.recorder.ended()

    def backward(self, output, target, microbatch):
        self.recorder.mark(("backward", len(self.devices) - 1, microbatch, 0), self.devices[-1])
        with self.precision.autocast():
            loss = loss_of(output, target, len(target) / (self.plan["batch"] * self.plan["accum"]))
        self.precision.scaled(loss).backward()
        return loss.detach()

    def loss(self):
        return float(sum(loss.item() for loss in self.losses))

    def spans(self, groups):
        """A copy is the same on both of its GPUs."""
        spans = {key: [span(kernels)] for key, kernels in groups.kernels.items()}
        for kind, stage, *rest in [key for key in spans if key[0] in ("send_forward", "send_backward")]:
            to = ("receive_forward", stage + 1) if kind == "send_forward" else ("receive_backward", stage - 1)
            spans[*to, *rest] = spans[kind, stage, *rest]
        return spans
