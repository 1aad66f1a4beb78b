"""HW1.4: DataParallel (one process, GPU 0 leads) against DistributedDataParallel (a process a GPU).

  python3 -m torch.distributed.run --nproc-per-node 4 hw1_4_dataparallel_ddp.py --device cuda --dim 8192

Prints the step time with its standard deviation, the memory of each GPU, and the utilisation as nvidia-smi shows it: the share
of time in which any kernel ran, those of NCCL included. Without GPUs DataParallel runs the model on the CPU as it is.
"""

import subprocess

import torch
import torch.distributed as dist
from torch import nn

from course_model import (
    LEARNING_RATE, ddp_model, gpus_text, make_data, make_model, own_share, peak_memory_mib, read_options, report, reset_peak_memory,
    start_ddp, timed_steps,
)


def step_times(model, x, target, options, devices):
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    reset_peak_memory(devices)
    return timed_steps(step, options, devices)[0]


def print_run(name, times, devices, watcher):
    report(name, times)
    print(f"  memory in MiB by GPU: {' '.join(f'{mib:.0f}' for mib in peak_memory_mib(devices)) or 'not counted on the CPU'}")
    if watcher:
        watcher.terminate()
        samples = [list(map(int, line.split(","))) for line in watcher.communicate()[0].splitlines() if "," in line]
        for gpu in range(len(devices)):
            own = [percent for index, percent in samples if index == gpu]
            print(f"  GPU {gpu}: utilisation {sum(own) / max(1, len(own)):.0f} % on average")


def watch_gpus(device):
    query = ["nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=100"]
    return subprocess.Popen(query, stdout=subprocess.PIPE, text=True) if device.type == "cuda" else None


def main():
    options = read_options("HW1.4: DataParallel against DDP")
    device = start_ddp(options)
    rank, world = dist.get_rank(), dist.get_world_size()
    devices = [torch.device("cuda", gpu) for gpu in range(world)] if device.type == "cuda" else [device]
    x, target = make_data(options.batch, options.dim)
    watcher = watch_gpus(device) if rank == 0 else None
    own_times = step_times(ddp_model(options, device), own_share(x, rank, world, device),
                           own_share(target, rank, world, device), options, [device])
    if rank == 0:
        print_run(f"DDP, {world} processes", own_times, [device], watcher)
    dist.barrier()
    if rank == 0:  # the others wait: one process drives all GPUs
        watcher = watch_gpus(device)
        model = nn.DataParallel(make_model(options.depth, options.dim).to(device))
        times = step_times(model, x.to(device), target.to(device), options, devices)
        print_run(f"DataParallel, {gpus_text(max(1, len(model.device_ids)))}", times, devices, watcher)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
