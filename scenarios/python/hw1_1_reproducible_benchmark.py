"""HW1.1: a benchmark that can be repeated. DDP, fixed seeds, each step timed on rank 0, the first 5 left out.

  python3 -m torch.distributed.run --nproc-per-node 2 hw1_1_reproducible_benchmark.py --device cpu
"""

import statistics

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_model import LEARNING_RATE, WARMUP_STEPS, own_share, read_options, report, start_ddp, timed_steps


def train(seed, options, device):
    """The times of all steps, warm-up included, and their losses."""
    torch.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
    layers = [nn.Sequential(nn.Linear(options.dim, options.dim), nn.ReLU()) for _ in range(options.depth)]
    ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    data, targets = torch.randn(2, options.batch, options.dim)
    rank, world = dist.get_rank(), dist.get_world_size()
    x, target = own_share(data, rank, world, device), own_share(targets, rank, world, device)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device], warmup=0)


def main():
    options = read_options("HW1.1: a reproducible benchmark")
    device = start_ddp(options)
    losses = []
    for run, seed in enumerate((0, 0, 1)):
        times, losses_of_run = train(seed, options, device)
        losses.append(losses_of_run)
        if dist.get_rank() > 0:
            continue
        warmup, measured = times[:WARMUP_STEPS], times[WARMUP_STEPS:]
        print(f"run {run}, seed {seed}: warm-up steps in ms:", " ".join(f"{ms:.3f}" for ms in warmup))
        print("  steps in ms:", " ".join(f"{ms:.3f}" for ms in measured))
        median = report(f"run {run}, seed {seed}", measured)
        print(f"  the first step takes {times[0] / median:.1f} times as long as the median; with the warm-up steps the mean "
              f"is {statistics.mean(times):.3f} ms, without {statistics.mean(measured):.3f} ms")
        print(f"  loss of the first step {losses_of_run[0]:.7f}, of the last {losses_of_run[-1]:.7f}")
    if dist.get_rank() == 0:
        print("two runs with seed 0:", "equal losses" if losses[0] == losses[1] else "different losses")
        print("seed 0 and seed 1:", "equal losses" if losses[0] == losses[2] else "different losses")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
