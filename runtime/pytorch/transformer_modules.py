"""What GPT-2 and Llama are made of, as scripts write it: rows x tokens x features between modules.

  GptEmbedding(layer, device)    token ids to embeddings, with learned positions
  GptBlock, LlamaBlock           attention and MLP, each behind a norm and with a residual sum
  Head                           a norm, then logits; tied: its weight is the embedding's

`layer`: of the plan, as a model file has it. Parameters are registered in the order of the forward. Dropout of 0 percent
is no module.
"""

import functools

import torch
from torch import nn
from torch.nn import functional

ROTARY_BASE = 10000
EMBEDDING_DEVIATION = 0.02  # as GPT-2 has it; nn.Embedding's is 1


def embedding(count, features, device):
    made = nn.Embedding(count, features, device=device)
    nn.init.normal_(made.weight, std=EMBEDDING_DEVIATION)
    return made


def dropped(percent):
    return [nn.Dropout(percent / 100)] if percent else []


def by_head(x, head_size):
    """Rows x heads x tokens x head_size, a view."""
    return x.view(*x.shape[:2], -1, head_size).transpose(1, 2)


def attended(q, k, v):
    grouped = k.size(1) < q.size(1)
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    return y.transpose(1, 2).flatten(2)


class RmsNorm(nn.RMSNorm):
    """In fp32: with a half input and a weight in fp32 PyTorch has no fused kernel."""

    def forward(self, x):
        return super().forward(x.float())


class Attention(nn.Module):
    """Of queries, keys and values that stand one after another."""

    def __init__(self, heads, kv_heads, head_size):
        super().__init__()
        self.sizes, self.head_size = [heads * head_size, kv_heads * head_size, kv_heads * head_size], head_size

    def forward(self, x):
        return attended(*(by_head(part, self.head_size) for part in x.split(self.sizes, dim=2)))


class PositionEmbedding(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        self.positions = embedding(layer["positions"], layer["features"], device)

    def forward(self, x):
        return x + self.positions(torch.arange(x.size(1), device=x.device))


class GptEmbedding(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        self.wte = embedding(layer["vocabulary"], layer["features"], device)
        self.wpe = embedding(layer["positions"], layer["features"], device)
        self.drop = nn.Sequential(*dropped(layer["dropout_percent"]))

    @property
    def weight(self):
        return self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        return self.drop(x) if len(self.drop) else x


class GptBlock(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        features, heads, percent = layer["features"], layer["heads"], layer["dropout_percent"]
        approximate = "tanh" if layer["gelu_tanh"] else "none"
        self.ln_1 = nn.LayerNorm(features, device=device)
        self.attention = nn.Sequential(nn.Linear(features, 3 * features, device=device),
                                       Attention(heads, heads, features // heads),
                                       nn.Linear(features, features, device=device), *dropped(percent))
        self.ln_2 = nn.LayerNorm(features, device=device)
        self.mlp = nn.Sequential(nn.Linear(features, layer["inner"], device=device), nn.GELU(approximate=approximate),
                                 nn.Linear(layer["inner"], features, device=device), *dropped(percent))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


@functools.cache
def rotary_tables(tokens, head_size, device, dtype):
    """Cosines and sines, tokens x head_size, the halves of a head alike."""
    frequencies = ROTARY_BASE ** -(torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


def rotated_half(x):
    half = x.size(-1) // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotated(x):
    cosines, sines = rotary_tables(*x.shape[2:], x.device, x.dtype)
    return x * cosines + rotated_half(x) * sines


class LlamaAttention(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        features = layer["features"]
        self.head_size = features // layer["heads"]
        kv_features = layer["kv_heads"] * self.head_size
        self.wq = nn.Linear(features, features, bias=False, device=device)
        self.wk = nn.Linear(features, kv_features, bias=False, device=device)
        self.wv = nn.Linear(features, kv_features, bias=False, device=device)
        self.wo = nn.Linear(features, features, bias=False, device=device)

    def forward(self, x):
        q, k, v = (by_head(linear(x), self.head_size) for linear in (self.wq, self.wk, self.wv))
        return self.wo(attended(rotated(q), rotated(k), v))


class LlamaMlp(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        features, inner = layer["features"], layer["inner"]
        self.w1 = nn.Linear(features, inner, bias=False, device=device)
        self.w3 = nn.Linear(features, inner, bias=False, device=device)
        self.w2 = nn.Linear(inner, features, bias=False, device=device)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, layer, device):
        super().__init__()
        self.attention_norm = RmsNorm(layer["features"], device=device)
        self.attention = LlamaAttention(layer, device)
        self.mlp_norm = RmsNorm(layer["features"], device=device)
        self.mlp = LlamaMlp(layer, device)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Head(nn.Module):
    def __init__(self, norm, layer, device):
        super().__init__()
        self.norm = norm
        self.tied = bool(layer["tied"])
        own = torch.device("meta") if self.tied else device
        self.logits = nn.Linear(layer["features"], layer["vocabulary"], bias=False, device=own)

    def tie(self, weight):
        self.logits.weight = weight

    def forward(self, x):
        return self.logits(self.norm(x))


def gpt_head(layer, device):
    return Head(nn.LayerNorm(layer["features"], device=device), layer, device)


def llama_head(layer, device):
    return Head(RmsNorm(layer["features"], device=device), layer, device)
