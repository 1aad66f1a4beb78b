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

from recomputation import Checkpointed
from transformer_modules import (Attention, GptBlock, GptEmbedding, LlamaBlock, PositionEmbedding, RmsNorm, embedding,
                                 gpt_head, llama_head)

MODULES = {
    "linear_relu": lambda layer, device: [nn.Linear(layer["in"], layer["out"], device=device), nn.ReLU()],
    "linear": lambda layer, device: [nn.Linear(layer["in"], layer["out"], device=device)],
    "linear_no_bias": lambda layer, device: [nn.Linear(layer["in"], layer["out"], bias=False, device=device)],
    "gelu": lambda layer, device: [nn.GELU()],
    "gelu_tanh": lambda layer, device: [nn.GELU(approximate="tanh")],
    "silu": lambda layer, device: [nn.SiLU()],
    "dropout": lambda layer, device: [nn.Dropout(layer["percent"] / 100)],
    "softmax": lambda layer, device: [nn.Softmax(dim=-1)],
    "layer_norm": lambda layer, device: [nn.LayerNorm(layer["features"], device=device)],
    "rms_norm": lambda layer, device: [RmsNorm(layer["features"], device=device)],
    "embedding": lambda layer, device: [embedding(layer["vocabulary"], layer["features"], device)],
    "position_embedding": lambda layer, device: [PositionEmbedding(layer, device)],
    "attention": lambda layer, device: [Attention(layer["heads"], layer["kv_heads"], layer["head_size"])],
    "gpt_embedding": lambda layer, device: [GptEmbedding(layer, device)],
    "gpt_block": lambda layer, device: [GptBlock(layer, device)],
    "gpt_head": lambda layer, device: [gpt_head(layer, device)],
    "llama_block": lambda layer, device: [LlamaBlock(layer, device)],
    "llama_head": lambda layer, device: [llama_head(layer, device)],
}
TAKES_TOKENS = ("embedding", "gpt_embedding")
HALVES = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


def modules_of(layers, device):
    """Rows x numbers go in and come out. Between modules that know of tokens they are rows x tokens x features."""
    parts, by_token = [], False
    for index, layer in enumerate(layers):
        if "tokens" in layer and not by_token and layer["kind"] not in TAKES_TOKENS:
            parts.append(nn.Unflatten(1, (layer["tokens"], -1)))
        if "tokens" not in layer and by_token:
            parts.append(nn.Flatten(1))
        by_token = "tokens" in layer
        modules = MODULES[layer["kind"]](layer, device)
        parts += [Checkpointed(modules, index)] if layer.get("checkpointed") else modules
    if getattr(parts[-1], "tied", False):
        parts[-1].tie(parts[0].weight)
    return nn.Sequential(*parts, *([nn.Flatten(1)] if by_token else []))


def layers_of(plan, stage):
    return plan["layers"][stage["first_layer"] : stage["first_layer"] + stage["layer_count"]]


def optimizer_of(plan, parameters):
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
             "adamw-fused": torch.optim.AdamW}
    kernels = {"fused": True} if plan["optimizer"].endswith("fused") else {"foreach": True}
    return kinds[plan["optimizer"]](list(parameters), lr=plan["learning_rate"], **kernels)


def generator_of(plan, device, salt):
    """The samples of a round are the same in each; `salt` tells inputs from targets."""
    return torch.Generator(device=device).manual_seed(2 * plan["seed"] + salt)


def inputs_of(plan, device):
    first, width = plan["layers"][0], plan["stages"][0]["in"]
    generator = generator_of(plan, device, 0)
    if first["kind"] in TAKES_TOKENS:
        return torch.randint(first["vocabulary"], (plan["batch"], width), device=device, generator=generator)
    return torch.randn(plan["batch"], width, device=device, generator=generator)


def targets_of(plan, device):
    width, generator = plan["stages"][-1]["out"], generator_of(plan, device, 1)
    if plan["loss"] == "cross_entropy":
        tokens = plan["tokens"]
        return torch.randint(width // tokens, (plan["batch"], tokens), device=device, generator=generator)
    return torch.randn(plan["batch"], width, device=device, generator=generator)


def loss_of(output, target, weight):
    """Targets that are whole numbers are tokens."""
    if target.is_floating_point():
        loss = nn.functional.mse_loss(output, target)
    else:
        loss = nn.functional.cross_entropy(output.view(target.numel(), -1), target.flatten())
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
