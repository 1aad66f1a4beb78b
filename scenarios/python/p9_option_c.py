"""Practical 9 and HW4.2, option C: after the forward of micro-batch i the backward of i - 1; at the end the last backward.

  python3 p9_option_c.py --device cpu --gpus 4 --microbatches 4        F0 F1 B0 F2 B1 F3 B2 B3
  python3 p9_option_c.py --device cpu --without-condition             HW4.3: what happens without `i > 0`
  python3 p9_option_c.py --device cpu --without-condition --retain-graph

Without the condition losses[i - 1] is losses[-1] at i = 0: the last element of the list, which is the loss of micro-batch 0
itself. Its backward runs at once, and a second time at i = 1: PyTorch refuses, as the first one has freed the graph. With
--retain-graph it does not refuse, and the gradient of micro-batch 0 is counted twice.
"""

from torch import nn

from course_model import gradients_of, read_microbatch_options, run_option


def option_c(model, inputs, targets, order, condition=True, retain_graph=False):
    """One forward-backward pass over all micro-batches; `order` is told what ran. The losses of the micro-batches."""
    losses = []

    def backward(i):
        (losses[i] / len(inputs)).backward(retain_graph=retain_graph)
        order.append(f"B{i if i >= 0 else len(losses) + i}")

    for i, (x, target) in enumerate(zip(inputs, targets)):
        target = target.to(model.devices[-1])  # to the GPU of the last layer, where the loss is
        losses.append(nn.functional.mse_loss(model(x), target))  # forward, and the loss is stored
        order.append(f"F{i}")
        if i > 0 or not condition:
            backward(i - 1)  # early backward
    backward(len(losses) - 1)  # final backward
    return [loss.detach() for loss in losses]


def more_options(parser):
    parser.add_argument("--without-condition", action="store_true", help="leave out `i > 0`")
    parser.add_argument("--retain-graph", action="store_true", help="keep the graph, so that a second backward runs")


def main():
    options = read_microbatch_options("Practical 9, option C", more_options)
    if not options.without_condition:
        run_option("option C", option_c, options)
        return
    order = []
    try:
        wrong = gradients_of(option_c, options, order, condition=False, retain_graph=options.retain_graph)
    except RuntimeError as problem:
        raise SystemExit(f"after {' '.join(order)}: RuntimeError: {problem}") from None
    right = gradients_of(option_c, options, [])
    error = (wrong - right).norm() / right.norm()
    print(f"order of execution: {' '.join(order)}; the gradient is wrong by {100 * error:.0f} % of its length")


if __name__ == "__main__":
    main()
