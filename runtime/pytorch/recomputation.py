"""Checkpointed layers: of their forward the input alone is kept, and their backward runs it again.

  Checkpointed([nn.Linear(...), nn.ReLU()], 3)      torch.utils.checkpoint.checkpoint(layers, x, use_reentrant=False)

  recomputation = Recomputation(plan, rank, model, recorder, key)    marks of a recorded step
  recomputation.microbatch = 7                                       before its forward
  recomputation.begins(7)                                            before its loss

A backward is cut into parts, as the plan has them: part 0 has the loss; the part of a checkpointed layer is its
recomputation, then its backward; other layers between two of those are a part together.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Checkpointed(nn.Module):
    def __init__(self, layers, index):
        """`index`: in the model."""
        super().__init__()
        self.layers = layers[0] if len(layers) == 1 else nn.Sequential(*layers)
        self.index, self.recomputation = index, None

    def forward(self, x):
        if self.recomputation is None or not self.recomputation.recorder.on:
            return checkpoint(self.layers, x, use_reentrant=False)
        return self.recomputation.recorded(self, x)


class Recomputation:
    def __init__(self, plan, rank, model, recorder, key):
        """`key`: of a task, from kind, micro-batch and part."""
        self.recorder, self.key = recorder, key
        self.microbatch = self.part = None  # of the next forward; of the backward that is under way
        layers = [module for module in model.modules() if isinstance(module, Checkpointed)]
        for layer in layers:
            layer.recomputation = self
        own = [task for task in plan["tasks"] if task["microbatch"] == 0 and
               (plan["processes"] == 1 or task["worker"] == rank)]
        again = sorted(task["part"] for task in own if task["kind"] == "recompute")
        self.part_of_layer = dict(zip(sorted((layer.index for layer in layers), reverse=True), again))
        self.plain_parts = {task["part"] for task in own if task["kind"] == "backward"} - set(again)

    def begins(self, microbatch, part=0):
        self.part = part
        self.recorder.mark(self.key("backward", microbatch, part))

    def recorded(self, layer, x):
        microbatch, part = self.microbatch, self.part_of_layer[layer.index]
        if x.requires_grad and part + 1 in self.plain_parts:
            x.register_hook(lambda _: self.begins(microbatch, part + 1))
        return checkpoint(self.run, layer.layers, microbatch, part, x, use_reentrant=False)

    def run(self, layers, microbatch, part, x):
        if torch._C._current_graph_task_id() < 0:  # no backward: it is the first time
            return layers(x)
        self.recorder.mark(self.key("recompute", microbatch, part))
        try:
            return layers(x)
        finally:  # it stops by an exception where all that the backward reads is there
            self.begins(microbatch, part)
