"""HW2.3: ACCUM_STEPS 4, 8, 16, 32 with and without AMP, and with and without no_sync.

  python3 -m torch.distributed.run --nproc-per-node 2 hw2_3_accumulation_sweep.py --device cpu

`batch` is that of one micro-batch of all GPUs: the effective batch grows with ACCUM_STEPS, and so does the time of a step. The
memory does not: the activations of a micro-batch are freed by its backward pass before the next one starts.
"""

import contextlib

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, make_data, own_share, peak_memory_mib, read_options, report, reset_peak_memory, start_ddp,
    timed_steps,
)


def step_times(options, device, accum_steps, amp, no_sync):
    model = ddp_model(options, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    scaler = torch.amp.GradScaler(device.type, enabled=amp)
    rank, world = dist.get_rank(), dist.get_world_size()
    x, target = (own_share(tensor, rank, world, device) for tensor in make_data(options.batch, options.dim))

    def step():
        optimizer.zero_grad()
        for i in range(accum_steps):
            with model.no_sync() if no_sync and i < accum_steps - 1 else contextlib.nullcontext():
                with torch.autocast(device.type, dtype=torch.float16, enabled=amp):
                    loss = nn.functional.mse_loss(model(x), target) / accum_steps
                scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    reset_peak_memory([device])
    return timed_steps(step, options, [device])[0]


def more_options(parser):
    parser.add_argument("--accum-steps", default="4,8,16,32", help="with commas between (default 4,8,16,32)")


def main():
    options = read_options("HW2.3: a sweep of ACCUM_STEPS", more_options)
    device = start_ddp(options)
    for amp in (False, True):
        for no_sync in (False, True):
            for accum_steps in map(int, options.accum_steps.split(",")):
                times = step_times(options, device, accum_steps, amp, no_sync)
                if dist.get_rank() > 0:
                    continue
                median = report(f"{'AMP' if amp else 'fp32'}{', no_sync' if no_sync else ''}, ACCUM_STEPS {accum_steps}", times)
                memory = peak_memory_mib([device])
                print(f"  effective batch {options.batch * accum_steps}, {median / accum_steps:.3f} ms a micro-batch, memory "
                      f"{f'{memory[0]:.0f} MiB' if memory else 'not counted on the CPU'}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
