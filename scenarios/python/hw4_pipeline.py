"""HW4: GPipe against real 1F1B, with a process a GPU, by torch.distributed.pipelining.

  python3 -m torch.distributed.run --nproc-per-node 4 hw4_pipeline.py --device cuda --dim 4096 --depth 16 --batch 4096

Each rank prints the order in which it ran forwards and backwards, and how many micro-batches were in flight at most: their
activations are what it keeps. With 1F1B stage s of P starts backwards after P - s forwards, with GPipe after all of them. The
step time is the same but for noise: 1F1B has the same bubble, (P - 1) / (M + P - 1) for M micro-batches.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from course_model import (
    LEARNING_RATE, gather, gpu_of_layer, make_data, make_model, peak_memory_mib, read_options, report, reset_peak_memory, start_ddp,
    timed_steps,
)


def run_schedule(schedule_class, options, device):
    rank, stages = dist.get_rank(), dist.get_world_size()
    layers = [layer for i, layer in enumerate(make_model(options.depth, options.dim))
              if gpu_of_layer(i, options.depth, stages) == rank]
    module = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    activation = torch.empty(options.batch // options.microbatches, options.dim, device="meta")
    stage = PipelineStage(module, rank, stages, device, input_args=activation, output_args=activation)
    schedule = schedule_class(stage, options.microbatches, loss_fn=nn.functional.mse_loss)
    x, target = (tensor.to(device) for tensor in make_data(options.batch, options.dim))
    order = []  # 1: a forward, -1: a backward

    def after_forward(_module, _inputs, output):
        order.append(1)
        if output.requires_grad:
            output.register_hook(lambda _gradient: order.append(-1))

    def step():
        order.clear()
        optimizer.zero_grad()
        losses = []
        schedule.step(*([x] if rank == 0 else []), target=target, losses=losses)
        optimizer.step()
        return sum(losses) / len(losses) if losses else torch.zeros(())

    reset_peak_memory([device])
    module.register_forward_hook(after_forward)
    times, losses = timed_steps(step, options, [device])
    return times, losses, order


def more_options(parser):
    parser.add_argument("--microbatches", type=int, default=8)


def main():
    options = read_options("HW4: GPipe against 1F1B", more_options)
    device = start_ddp(options)
    last = dist.get_world_size() - 1
    for name, schedule_class in (("GPipe", ScheduleGPipe), ("1F1B", Schedule1F1B)):
        times, losses, order = run_schedule(schedule_class, options, device)
        memory = peak_memory_mib([device]) or [0]
        losses_of, order_of, memory_of = gather(losses, device), gather(order, device), gather(memory, device)
        if dist.get_rank() > 0:
            continue
        report(f"{name}, {options.microbatches} micro-batches", times)
        print(f"  loss of the first step {losses_of[last][0]:.7f}, of the last {losses_of[last][-1]:.7f}")
        for rank, (order, (mib,)) in enumerate(zip(order_of, memory_of)):
            print(f"  rank {rank}: {' '.join('F' if change > 0 else 'B' for change in order)}; "
                  f"in flight at most {max(itertools.accumulate(order)):.0f}; peak memory "
                  f"{f'{mib:.0f} MiB' if mib else 'not counted on the CPU'}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
