"""What the programs of the exercises share: the model, its options, a timed training loop, the processes of DDP.

  options = read_options("HW3.4: ...", depth=20)
  model = SplitModel(options.depth, options.dim, devices_of(options))
  report("2 GPUs", timed_steps(lambda: train_step(...), options, devices))
  -> 2 GPUs: median 1.234 ms (middle half 1.20 to 1.27, standard deviation 0.05) of 30 steps, 5 warm-up steps dropped

The model is a stack of `depth` blocks Linear(dim, dim) + ReLU with a mean-squared-error loss on random data and SGD. A step is
timed from before its forward pass to after its optimizer step, with idle devices at both ends, in milliseconds. On the CPU the
programs run the same code with small sizes; where an exercise needs several GPUs in one process, all of them are the CPU.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARMUP_STEPS = 5
LEARNING_RATE = 1e-2


def read_options(what, more=None, *, dim=64, depth=8, batch=64, gpus=2):
    """`more(parser)` adds the options of one exercise."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dim", type=int, default=dim, help=f"inputs and outputs of each layer (default {dim})")
    parser.add_argument("--depth", type=int, default=depth, help=f"layers (default {depth})")
    parser.add_argument("--batch", type=int, default=batch, help=f"samples of all GPUs in one step (default {batch})")
    parser.add_argument("--gpus", type=int, default=gpus, help=f"of a model that is split by layers (default {gpus})")
    parser.add_argument("--steps", type=int, default=WARMUP_STEPS + 30, help="steps, warm-up included (default 35)")
    if more:
        more(parser)
    options = parser.parse_args()
    if options.steps <= WARMUP_STEPS:
        parser.error(f"--steps: found {options.steps}, expected more than the {WARMUP_STEPS} warm-up steps")
    return options


def make_model(depth, dim):
    """LargeLinearModel: the same weights wherever it is made, as the seed is fixed first."""
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth)])


def make_data(batch, dim):
    """Input and target: the same whatever the model and the GPUs."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, dim, generator=generator), torch.randn(batch, dim, generator=generator)


def gpu_of_layer(layer, depth, gpus):
    """Layers spread as evenly as possible: the first depth % gpus GPUs hold one layer more than the others."""
    each, more = divmod(depth, gpus)
    boundary = more * (each + 1)
    return layer // (each + 1) if layer < boundary else more + (layer - boundary) // each


def devices_of(options):
    if options.device == "cpu":
        return [torch.device("cpu")] * options.gpus
    return [torch.device("cuda", gpu) for gpu in range(options.gpus)]


class SplitModel(nn.Module):
    """LargeLinearModelMP: layer i is on the GPU that gpu_of_layer() says, and the activation moves to where the layer is."""

    def __init__(self, depth, dim, devices):
        super().__init__()
        self.devices = devices
        self.gpu_of = [gpu_of_layer(layer, depth, len(devices)) for layer in range(depth)]
        self.layers = make_model(depth, dim)
        for layer, gpu in zip(self.layers, self.gpu_of):
            layer.to(devices[gpu])

    def forward(self, x):
        self.calls, self.moves, here = 0, 0, 0  # the input is on GPU 0
        for layer, gpu in zip(self.layers, self.gpu_of):
            x = x.to(self.devices[gpu])  # nothing happens where it is there already
            self.calls += 1
            self.moves += gpu != here
            here = gpu
            x = layer(x)
        return x


def split_step(model, options):
    """A training step of a SplitModel on the whole batch: a function that returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = make_data(options.batch, options.dim)
    x, target = x.to(model.devices[0]), target.to(model.devices[-1])

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def synchronize(devices):
    for device in set(devices):
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def timed_steps(step, options, devices, warmup=WARMUP_STEPS):
    """Runs all steps; the times in ms of those after the warm-up, and the loss of each step, which `step` returns."""
    times, losses = [], []
    for _ in range(options.steps):
        synchronize(devices)
        begin = time.perf_counter()
        loss = step()
        synchronize(devices)
        times.append(1e3 * (time.perf_counter() - begin))
        losses.append(float(loss))
    return times[warmup:], losses


def gpus_text(count):
    return f"{count} GPU{'s' if count > 1 else ''}"


def report(what, times):
    low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else 3 * times
    print(f"{what}: median {median:.3f} ms (middle half {low:.3f} to {high:.3f}, standard deviation "
          f"{statistics.pstdev(times):.3f}) of {len(times)} steps, {WARMUP_STEPS} warm-up steps dropped", flush=True)
    return median


def peak_memory_mib(devices):
    """Of each GPU since reset_peak_memory(); nothing on the CPU."""
    return [torch.cuda.max_memory_allocated(device) / 2**20 for device in devices if device.type == "cuda"]


def reset_peak_memory(devices):
    for device in devices:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)


# ---- micro-batches by one process: options A, B and C ---------------------------------------------------------------


def read_microbatch_options(what, more=None):
    def with_microbatches(parser):
        parser.add_argument("--microbatches", type=int, default=4, help="of a step (default 4)")
        if more:
            more(parser)

    return read_options(what, with_microbatches)


def gradients_of(passes, options, order, **keywords):
    """All gradients after one pass of an option over its micro-batches, as one vector."""
    model = SplitModel(options.depth, options.dim, devices_of(options))
    x, target = make_data(options.batch, options.dim)
    passes(model, x.to(model.devices[0]).chunk(options.microbatches), target.chunk(options.microbatches), order, **keywords)
    return torch.cat([parameter.grad.flatten().cpu() for parameter in model.parameters()])


def run_option(name, passes, options):
    """Trains with `passes`, prints step time, order and losses; the median step time in ms."""
    devices = devices_of(options)
    model = SplitModel(options.depth, options.dim, devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, target = make_data(options.batch, options.dim)
    inputs, targets = x.to(devices[0]).chunk(options.microbatches), target.chunk(options.microbatches)
    order = []

    def step():
        order.clear()
        optimizer.zero_grad()
        losses = passes(model, inputs, targets, order)
        optimizer.step()
        return sum(losses) / len(losses)

    times, losses = timed_steps(step, options, devices)
    median = report(f"{name}, {gpus_text(options.gpus)}, {options.microbatches} micro-batches", times)
    print(f"  order of execution: {' '.join(order)}")
    print(f"  loss of the first step {losses[0]:.7f}, of the last {losses[-1]:.7f}", flush=True)
    return median


# ---- a process a GPU: started by python3 -m torch.distributed.run --nproc-per-node 2 PROGRAM.py ----------------------


def start_ddp(options):
    """The device of this process. NCCL on GPUs, Gloo on the CPU."""
    if "RANK" not in os.environ:
        raise SystemExit("start it with: python3 -m torch.distributed.run --nproc-per-node 2 PROGRAM.py")
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def on_first_gpus(counts=(1, 2, 4)):
    """(count, group) for each count that there are processes for; every process must go through all of them."""
    for count in counts:
        if count <= dist.get_world_size():
            yield count, dist.new_group(list(range(count)))
            dist.barrier()  # those that do not take part wait here


def ddp_model(options, device, group=None):
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(make_model(options.depth, options.dim).to(device), ids, process_group=group)


def gather(numbers, device):
    """The numbers of every rank, as many of each: a list a rank."""
    own = torch.tensor(numbers, dtype=torch.float64, device=device)
    all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, own)
    return [numbers_of.tolist() for numbers_of in all_ranks]


def own_share(tensor, rank, count, device):
    """Rows of the global batch for this rank."""
    return tensor.chunk(count)[rank].to(device)
