"""HW3.1: a model split over two GPUs. Which layers are on which GPU, and where does the data move?

  python3 hw3_1_current_behaviour.py --device cpu
"""

import torch
from torch import nn

from course_model import LEARNING_RATE, devices_of, make_data, make_model, read_options, report, timed_steps


class LargeLinearModelMP(nn.Module):
    """Layer i is on GPU 0 if i < depth / 2, else on GPU 1."""

    def __init__(self, depth, dim, devices):
        super().__init__()
        self.devices = devices
        self.gpu_of = [0 if layer < depth / 2 else 1 for layer in range(depth)]
        self.layers = make_model(depth, dim)
        for layer, gpu in zip(self.layers, self.gpu_of):
            layer.to(devices[gpu])

    def forward(self, x):
        self.moves = []
        for index, (layer, gpu) in enumerate(zip(self.layers, self.gpu_of)):
            if index > 0 and gpu != self.gpu_of[index - 1]:
                self.moves.append(index)
            x = layer(x.to(self.devices[gpu]))  # here the data moves, where the layer before is on another GPU
        return x


def main():
    options = read_options("HW3.1: a model split over two GPUs")
    options.gpus = 2
    devices = devices_of(options)
    model = LargeLinearModelMP(options.depth, options.dim, devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = make_data(options.batch, options.dim)
    x, target = x.to(devices[0]), target.to(devices[-1])

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    times, _ = timed_steps(step, options, devices)
    for gpu in (0, 1):
        print(f"GPU {gpu}: layers", *[layer for layer, own in enumerate(model.gpu_of) if own == gpu])
    for index in model.moves:
        print(f"the data moves before layer {index}, from GPU {model.gpu_of[index - 1]} to GPU {model.gpu_of[index]}")
    report("2 GPUs", times)


if __name__ == "__main__":
    main()
