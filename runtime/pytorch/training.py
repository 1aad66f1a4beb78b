"""What every program of a training shares: its layers, optimizer, precision, data and losses, as a script has them.

  layers = modules_of(plan["layers"], device)          nn.Sequential(nn.Linear(...), nn.ReLU(), ...)
  precision = Precision(plan, device)
  with precision.autocast():
      loss = loss_of(layers(x), target, weight)
  precision.scaled(loss).backward()
  precision.step(optimizer)                            with amp-fp16 by a GradScaler

Precisions: fp32, tf32 (products of fp32 by tensor cores), amp-bf16, amp-fp16.
"""

import contextlib

import torch
from torch import nn

MODULES = {
    "linear_relu": lambda layer, device: [nn.Linear(layer["in"], layer["out"], device=device), nn.ReLU()],
    "linear": lambda layer, device: [nn.Linear(layer["in"], layer["out"], device=device)],
    "gelu": lambda layer, device: [nn.GELU()],
    "silu": lambda layer, device: [nn.SiLU()],
    "layer_norm": lambda layer, device: [nn.LayerNorm(layer["features"], device=device)],
}
HALVES = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


def modules_of(layers, device):
    return nn.Sequential(*[part for layer in layers for part in MODULES[layer["kind"]](layer, device)])


def layers_of(plan, stage):
    return plan["layers"][stage["first_layer"] : stage["first_layer"] + stage["layer_count"]]


def optimizer_of(plan, parameters):
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[plan["optimizer"]]
    return kind(list(parameters), lr=plan["learning_rate"], foreach=True)


def data_of(plan, device, width, salt):
    """The samples of a round, the same in each; `salt` tells inputs from targets."""
    generator = torch.Generator(device=device).manual_seed(2 * plan["seed"] + salt)
    return torch.randn(plan["batch"], width, device=device, generator=generator)


def loss_of(output, target, weight):
    loss = nn.functional.mse_loss(output, target)
    return loss if weight == 1 else loss * weight


class Precision:
    def __init__(self, plan, device):
        self.device_type = device.type
        self.half = HALVES.get(plan["dtype"])
        torch.backends.cuda.matmul.allow_tf32 = plan["dtype"] == "tf32"
        self.scaler = None
        if self.half == torch.float16:
            self.scaler = torch.amp.GradScaler(device.type, init_scale=plan["loss_scale"])

    def autocast(self):
        if self.half is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=self.half)

    def scaled(self, loss):
        return self.scaler.scale(loss) if self.scaler else loss

    def step(self, optimizer):
        if self.scaler is None:
            optimizer.step()
            return
        self.scaler.step(optimizer)
        self.scaler.update()

    def scale(self):
        """Waits for the GPU: for between two steps. After a step that was skipped it is smaller."""
        return self.scaler.get_scale() if self.scaler else 1.0
