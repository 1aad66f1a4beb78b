"""Practical 9, option B: GPipe. All micro-batches go forward, then all go backward.

  python3 p9_option_b_gpipe.py --device cpu --gpus 4 --microbatches 4

Forward and backward are separated so that a GPU can start on the next micro-batch without waiting for a backward pass. The
price: the activations of all micro-batches are kept until the backward passes.
"""

from torch import nn

from course_model import read_microbatch_options, run_option


def option_b(model, inputs, targets, order):
    """One forward-backward pass over all micro-batches; `order` is told what ran. The losses of the micro-batches."""
    losses = []
    for i, (x, target) in enumerate(zip(inputs, targets)):
        target = target.to(model.devices[-1])
        losses.append(nn.functional.mse_loss(model(x), target))
        order.append(f"F{i}")
    for i, loss in enumerate(losses):
        (loss / len(inputs)).backward()
        order.append(f"B{i}")
    return [loss.detach() for loss in losses]


if __name__ == "__main__":
    run_option("option B (GPipe)", option_b, read_microbatch_options("Practical 9, option B"))
