"""HW1.2: strong scaling. DDP with one global batch on 1, 2 and 4 GPUs: step time, speed-up, efficiency.

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_2_strong_scaling.py --device cuda --dim 8192

Of four processes the first one, two or four train; the others wait.
"""

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gpus_text, make_data, on_first_gpus, own_share, read_options, report, start_ddp, timed_steps,
)


def step_times(options, device, gpus, group):
    model = ddp_model(options, device, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = (own_share(tensor, dist.get_rank(), gpus, device) for tensor in make_data(options.batch, options.dim))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device])[0]


def main():
    options = read_options("HW1.2: strong scaling of DDP", batch=64)
    device = start_ddp(options)
    for gpus, group in on_first_gpus():
        if dist.get_rank() >= gpus:
            continue
        times = step_times(options, device, gpus, group)
        if dist.get_rank() == 0:
            median = report(f"{gpus_text(gpus)}", times)
            alone = median if gpus == 1 else alone
            print(f"  speed-up {alone / median:.2f}, efficiency {100 * alone / median / gpus:.0f} %", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
