"""HW2.2: code 1 (DDP + accumulation), code 2 (DDP + AMP), code 3 (both): time, memory, stability.

  python3 -m torch.distributed.run --nproc-per-node 2 hw2_2_three_codes.py --device cpu

Stable: no step skipped by the scaler, every loss finite. Inside accumulation only the last micro-batch synchronises gradients
(no_sync for the others). Times are also given a sample, as codes 1 and 3 train ACCUM_STEPS times as many of them in a step.
"""

import contextlib
import math

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, make_data, own_share, peak_memory_mib, read_options, report, reset_peak_memory, start_ddp,
    timed_steps,
)


def train(options, device, accum_steps, amp):
    """Times, losses, and how many steps the scaler skipped."""
    model = ddp_model(options, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    rank, world = dist.get_rank(), dist.get_world_size()
    x, target = (own_share(tensor, rank, world, device)
                 for tensor in make_data(options.batch * accum_steps, options.dim))
    skipped = []

    def step():
        optimizer.zero_grad()
        total = 0
        for i, (x_i, target_i) in enumerate(zip(x.chunk(accum_steps), target.chunk(accum_steps))):
            with contextlib.nullcontext() if i == accum_steps - 1 else model.no_sync():
                with torch.autocast(device.type, dtype=torch.float16, enabled=amp):
                    loss = nn.functional.mse_loss(model(x_i), target_i) / accum_steps
                scaler.scale(loss).backward()
            total += loss.detach()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped.append(scaler.get_scale() < scale)  # the scale falls where a gradient was not finite
        return total

    times, losses = timed_steps(step, options, [device])
    return times, losses, sum(skipped)


def more_options(parser):
    parser.add_argument("--accum-steps", type=int, default=4, help="of codes 1 and 3 (default 4)")


def main():
    options = read_options("HW2.2: accumulation, AMP, and both", more_options)
    device = start_ddp(options)
    codes = (("code 1 (DDP + accumulation)", options.accum_steps, False), ("code 2 (DDP + AMP)", 1, True),
             ("code 3 (DDP + accumulation + AMP)", options.accum_steps, True))
    for name, accum_steps, amp in codes:
        reset_peak_memory([device])
        times, losses, skipped = train(options, device, accum_steps, amp)
        if dist.get_rank() == 0:
            median = report(name, times)
            memory = peak_memory_mib([device])
            print(f"  {1e3 * median / (options.batch * accum_steps):.3f} us a sample; memory "
                  f"{f'{memory[0]:.0f} MiB' if memory else 'not counted on the CPU'}; {skipped} steps skipped, "
                  f"{sum(not math.isfinite(loss) for loss in losses)} losses not finite; last loss {losses[-1]:.5f}",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
