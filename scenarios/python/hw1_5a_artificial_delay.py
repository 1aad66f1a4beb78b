"""HW1.5A: an artificial delay. Every process sleeps before its backward pass: what is left of the speed-up of DDP?

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_5a_artificial_delay.py --device cuda --delays 0,1,2,5,10,20

Amdahl's law: the delay is a part that more GPUs do not shorten, so the speed-up is at most (t + delay) / (t / GPUs + delay)
for a step of t on one GPU.
"""

import time

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gpus_text, make_data, on_first_gpus, own_share, read_options, report, start_ddp, synchronize, timed_steps,
)


def step_times(options, device, gpus, group, delay_ms):
    model = ddp_model(options, device, group)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = (own_share(tensor, dist.get_rank(), gpus, device) for tensor in make_data(options.batch, options.dim))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        synchronize([device])  # else the sleep would hide behind the forward pass of the GPU
        time.sleep(delay_ms / 1e3)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed_steps(step, options, [device])[0]


def more_options(parser):
    parser.add_argument("--delays", default="0,10", help="in ms, with commas between (default 0,10)")


def main():
    options = read_options("HW1.5A: an artificial delay", more_options)
    device = start_ddp(options)
    for delay_ms in map(float, options.delays.split(",")):
        for gpus, group in on_first_gpus():
            if dist.get_rank() >= gpus:
                continue
            times = step_times(options, device, gpus, group, delay_ms)
            if dist.get_rank() == 0:
                median = report(f"delay {delay_ms:g} ms, {gpus_text(gpus)}", times)
                alone = median if gpus == 1 else alone
                at_most = alone / ((alone - delay_ms) / gpus + delay_ms)
                print(f"  speed-up {alone / median:.2f}; by Amdahl's law at most {at_most:.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
