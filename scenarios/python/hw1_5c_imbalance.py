"""HW1.5C: imbalance. Rank 0 sleeps 20 ms in every step: all ranks wait for it, in the all-reduce of the gradients.

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_5c_imbalance.py --device cuda --dim 8192
"""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gather, make_data, own_share, read_options, report, start_ddp, timed_steps,
)


def step_times(options, device, sleep_ms):
    model = ddp_model(options, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    rank, world = dist.get_rank(), dist.get_world_size()
    x, target = (own_share(tensor, rank, world, device) for tensor in make_data(options.batch, options.dim))

    def step():
        optimizer.zero_grad()
        if rank == 0:
            time.sleep(sleep_ms / 1e3)
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device])[0]


def more_options(parser):
    parser.add_argument("--sleep-ms", type=float, default=20, help="of rank 0 in every step (default 20)")


def main():
    options = read_options("HW1.5C: one rank is slow", more_options)
    device = start_ddp(options)
    for sleep_ms in (0, options.sleep_ms):
        times = step_times(options, device, sleep_ms)
        medians = gather([statistics.median(times)], device)
        if dist.get_rank() == 0:
            report(f"rank 0 sleeps {sleep_ms:g} ms", times)
            print("  median step of each rank in ms:", " ".join(f"{ms:.3f}" for (ms,) in medians), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
