"""HW2.1: gradient accumulation with mixed precision inside it: autocast, scaler.scale, scaler.step, scaler.update.

  python3 -m torch.distributed.run --nproc-per-node 2 hw2_1_amp_accumulation.py --device cpu

Each micro-batch adds its gradients; its loss is divided by ACCUM_STEPS, so that the sum is the gradient of the mean over the
effective batch: batch (of all GPUs) x ACCUM_STEPS samples.
"""

import torch
import torch.distributed as dist
from torch import nn

from course_model import LEARNING_RATE, ddp_model, make_data, own_share, read_options, report, start_ddp, timed_steps


def train(options, device, amp):
    accum_steps = options.accum_steps
    model = ddp_model(options, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    rank, world = dist.get_rank(), dist.get_world_size()
    x, target = (own_share(tensor, rank, world, device)
                 for tensor in make_data(options.batch * accum_steps, options.dim))

    def step():
        optimizer.zero_grad()
        total = 0
        for x_i, target_i in zip(x.chunk(accum_steps), target.chunk(accum_steps)):
            with torch.autocast(device.type, dtype=torch.float16, enabled=amp):
                loss = nn.functional.mse_loss(model(x_i), target_i) / accum_steps
            scaler.scale(loss).backward()
            total += loss.detach()
        scaler.step(optimizer)  # left out where a gradient is not finite
        scaler.update()
        return total

    return timed_steps(step, options, [device])


def more_options(parser):
    parser.add_argument("--accum-steps", type=int, default=4, help="micro-batches of a step (default 4)")


def main():
    options = read_options("HW2.1: AMP inside gradient accumulation", more_options)
    device = start_ddp(options)
    for amp in (False, True):
        times, losses = train(options, device, amp)
        if dist.get_rank() == 0:
            report(f"{'AMP' if amp else 'fp32'}, ACCUM_STEPS {options.accum_steps}, effective batch "
                   f"{options.batch * options.accum_steps}", times)
            print(f"  loss of the first step {losses[0]:.5f}, of the last {losses[-1]:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
