"""Practical 9, option A: naive. Each micro-batch goes forward, then backward, through all GPUs; then the next one.

  python3 p9_option_a_naive.py --device cpu --gpus 4 --microbatches 4
"""

from torch import nn

from course_model import read_microbatch_options, run_option


def option_a(model, inputs, targets, order):
    """One forward-backward pass over all micro-batches; `order` is told what ran. The losses of the micro-batches."""
    losses = []
    for i, (x, target) in enumerate(zip(inputs, targets)):
        target = target.to(model.devices[-1])
        loss = nn.functional.mse_loss(model(x), target)
        order.append(f"F{i}")
        (loss / len(inputs)).backward()
        order.append(f"B{i}")
        losses.append(loss.detach())
    return losses


if __name__ == "__main__":
    run_option("option A (naive)", option_a, read_microbatch_options("Practical 9, option A"))
