"""HW1.3: communication against computation. A small and a large model with DDP on 1, 2 and 4 GPUs.

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_3_communication_computation.py --device cuda
  ... --small 32x2 --large 256x4 --device cpu           sizes for a CPU: DIMxDEPTH

How much of a step is communication: the same step is timed with no_sync() too, which leaves out the all-reduce of the gradients.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gpus_text, make_data, on_first_gpus, own_share, read_options, report, start_ddp, timed_steps,
)


def step_times(options, device, gpus, group, synchronized):
    model = ddp_model(options, device, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = (own_share(tensor, dist.get_rank(), gpus, device) for tensor in make_data(options.batch, options.dim))

    def step():
        optimizer.zero_grad()
        with contextlib.nullcontext() if synchronized else model.no_sync():
            loss = nn.functional.mse_loss(model(x), target)
            loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device])[0]


def more_options(parser):
    parser.add_argument("--small", default="1024x2", metavar="DIMxDEPTH")
    parser.add_argument("--large", default="8192x8", metavar="DIMxDEPTH")


def main():
    options = read_options("HW1.3: communication against computation", more_options)
    device = start_ddp(options)
    for name, size in (("small", options.small), ("large", options.large)):
        options.dim, options.depth = map(int, size.split("x"))
        for gpus, group in on_first_gpus():
            if dist.get_rank() >= gpus:
                continue
            times = step_times(options, device, gpus, group, True)
            without = step_times(options, device, gpus, group, False)
            if dist.get_rank() == 0:
                median = report(f"{name} ({size}), {gpus_text(gpus)}", times)
                alone = median if gpus == 1 else alone
                unsynchronized = report("  without the all-reduce", without)
                print(f"  speed-up {alone / median:.2f}; the all-reduce is {100 * max(0, 1 - unsynchronized / median):.0f} % of "
                      "the step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
