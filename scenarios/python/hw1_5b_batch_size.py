"""HW1.5B: batch size. DDP with global batches of 32 to 256 on all GPUs, against one GPU.

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_5b_batch_size.py --device cuda --dim 8192
"""

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gpus_text, make_data, on_first_gpus, own_share, read_options, report, start_ddp, timed_steps,
)


def step_times(options, device, gpus, group, batch):
    model = ddp_model(options, device, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = (own_share(tensor, dist.get_rank(), gpus, device) for tensor in make_data(batch, options.dim))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device])[0]


def more_options(parser):
    parser.add_argument("--batches", default="32,64,128,256", help="of all GPUs, with commas between")


def main():
    options = read_options("HW1.5B: batch size", more_options)
    device = start_ddp(options)
    for batch in map(int, options.batches.split(",")):
        for gpus, group in on_first_gpus((1, dist.get_world_size())):
            if dist.get_rank() >= gpus:
                continue
            times = step_times(options, device, gpus, group, batch)
            if dist.get_rank() == 0:
                median = report(f"batch {batch}, {gpus_text(gpus)}", times)
                alone = median if gpus == 1 else alone
                print(f"  speed-up {alone / median:.2f}, {1e3 * batch / median:.0f} samples/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
