"""Training steps written with plain PyTorch, beside which pdl-run is measured (tests/peers), and their processes.

Two kinds of program, both on a stack of `depth` blocks Linear(dim, dim) + ReLU, mean-squared error, SGD, fp32:

  pipelining    torch.distributed.pipelining: one process a GPU, one or more PipelineStages each, NCCL (Gloo on CPU)
  one process   the course's programs: one thread issues for all GPUs, layers are split over them, `.to(device)` between

A step is timed from after a barrier with idle devices to idle devices again; it holds zero_grad, forward, backward and
the optimizer. Times are read from CLOCK_MONOTONIC, which all processes of a host share, in nanoseconds.
Left out: batches that do not divide by the micro-batches (PipelineStage takes one shape only).
"""

import datetime
import gc
import inspect
import os
import platform
import subprocess
import tempfile
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import wait as multiprocessing_wait

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._utils import generate_rank_to_stage_mapping
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class


@dataclass(frozen=True)
class Step:
    """What one training step is, whoever runs it."""

    gpus: int
    depth: int
    dim: int
    batch: int
    microbatches: int
    warmup: int
    steps: int
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class Pipelining:
    """A class of torch.distributed.pipelining.schedules and where it wants its stages.

    placement "loop": stage s on rank s % gpus; "v": down the ranks and back up (ZBVZeroBubble, DualPipeV: needs NCCL,
    because PyTorch 2.11 opens its connections by a message of the last rank to itself, which Gloo refuses).
    """

    schedule: str
    stages_per_gpu: int = 1
    placement: str = "loop"


@dataclass(frozen=True)
class OneProcess:
    """A function of this file that runs one forward-backward pass over the micro-batches: see ONE_PROCESS_ORDERS."""

    order: str


@dataclass(frozen=True)
class Measured:
    step_ms: list
    first_loss: float
    last_loss: float


class Refused(Exception):
    """The case cannot be run this way; the message says why. The processes are still in order."""


class PeerFailed(Exception):
    """A process did not answer in time, or died. The processes have been ended."""


def spread(count, parts):
    """30 over 4 -> 8 8 7 7."""
    return [count // parts + (1 if part < count % parts else 0) for part in range(parts)]


def blocks(count, dim, device):
    layers = []
    for _ in range(count):
        layers += [nn.Linear(dim, dim, device=device), nn.ReLU()]
    return nn.Sequential(*layers)


def synchronize(devices):
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def release_memory(devices):
    gc.collect()
    if devices[0].type == "cuda":
        torch.cuda.empty_cache()


# ---- torch.distributed.pipelining -----------------------------------------------------------------------------------


class PipeliningProgram:
    def __init__(self, step, program, rank, device):
        rows, rest = divmod(step.batch, step.microbatches)
        if rest:
            raise Refused(f"PipelineStage needs equal micro-batches: {step.batch} by {step.microbatches}")
        if program.placement == "v" and device.type == "cpu":
            raise Refused("V-shaped placement needs NCCL")
        stage_count = step.gpus * program.stages_per_gpu
        if step.depth < stage_count:
            raise Refused(f"{stage_count} stages of {step.depth} layers")
        depths = spread(step.depth, stage_count)
        here = generate_rank_to_stage_mapping(step.gpus, stage_count, program.placement)[rank]

        torch.manual_seed(0)
        activation = torch.empty(rows, step.dim, device="meta")
        modules = [blocks(depths[index], step.dim, device) for index in here]
        stages = [
            PipelineStage(module, index, stage_count, device, input_args=activation, output_args=activation)
            for index, module in zip(here, modules)
        ]
        # The loss of a micro-batch is scaled so that the losses add up to the mean over the batch; then PyTorch need
        # not divide the gradients afterwards.
        scale = rows / step.batch
        schedule_class = get_schedule_class(program.schedule)
        several = issubclass(schedule_class, PipelineScheduleMulti)
        try:
            self.schedule = schedule_class(
                stages if several else stages[0],
                step.microbatches,
                loss_fn=lambda output, target: nn.functional.mse_loss(output, target) * scale,
                scale_grads=False,
            )
        except ValueError as problem:  # for instance 1F1B with fewer micro-batches than stages; the same on every rank
            raise Refused(" ".join(str(problem).split())) from None
        self.optimizer = torch.optim.SGD(
            [parameter for module in modules for parameter in module.parameters()],
            lr=step.learning_rate,
            foreach=True,
        )
        self.input = torch.randn(step.batch, step.dim, device=device) if 0 in here else None
        self.target = torch.randn(step.batch, step.dim, device=device) if stage_count - 1 in here else None
        # Older schedules always gather the outputs of the last stage; where they need not, they do not.
        self.keywords = {}
        if "return_outputs" in inspect.signature(self.schedule.step).parameters:
            self.keywords["return_outputs"] = False

    def step(self):
        self.optimizer.zero_grad()
        self.losses = []
        arguments = () if self.input is None else (self.input,)
        self.schedule.step(*arguments, target=self.target, losses=self.losses, **self.keywords)
        self.optimizer.step()

    def loss(self):
        return float(sum(loss.item() for loss in self.losses)) if self.target is not None else None


# ---- one process, one thread: the course's programs -----------------------------------------------------------------


class SplitModel(nn.Module):
    """Layers in order over the devices, as even as possible; the activation moves where the layer is."""

    def __init__(self, depth, dim, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(
            blocks(count, dim, device) for count, device in zip(spread(depth, len(devices)), devices)
        )

    def forward(self, x):
        for device, part in zip(self.devices, self.parts):
            x = part(x.to(device))
        return x


def option_a(model, inputs, targets, loss_of):
    """Each micro-batch forward, then backward. With one micro-batch: the naive split."""
    losses = []
    for x, target in zip(inputs, targets):
        loss = loss_of(model(x), target)
        loss.backward()
        losses.append(loss.detach())
    return losses


def option_b(model, inputs, targets, loss_of):
    """All forwards, then all backwards."""
    outputs = [model(x) for x in inputs]
    losses = []
    for output, target in zip(outputs, targets):
        loss = loss_of(output, target)
        loss.backward()
        losses.append(loss.detach())
    return losses


def option_c(model, inputs, targets, loss_of):
    """F0, then F_i B_(i-1), at the end B_last."""
    losses = []
    outputs = [model(inputs[0])]
    for index in range(len(inputs)):
        if index + 1 < len(inputs):
            outputs.append(model(inputs[index + 1]))
        loss = loss_of(outputs.pop(0), targets[index])
        loss.backward()
        losses.append(loss.detach())
    return losses


ONE_PROCESS_ORDERS = {"option-a": option_a, "option-b": option_b, "option-c": option_c}


class OneProcessProgram:
    def __init__(self, step, program, devices):
        if step.depth < len(devices):
            raise Refused(f"{step.depth} layers on {len(devices)} devices")
        torch.manual_seed(0)
        self.model = SplitModel(step.depth, step.dim, devices)
        self.order = ONE_PROCESS_ORDERS[program.order]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=step.learning_rate)
        self.inputs = torch.randn(step.batch, step.dim, device=devices[0]).chunk(step.microbatches)
        self.targets = torch.randn(step.batch, step.dim, device=devices[-1]).chunk(step.microbatches)
        if len(self.inputs) > 1:
            self.loss_of = lambda y, target: nn.functional.mse_loss(y, target) * (len(y) / step.batch)
        else:
            self.loss_of = nn.functional.mse_loss

    def step(self):
        self.optimizer.zero_grad()
        self.losses = self.order(self.model, self.inputs, self.targets, self.loss_of)
        self.optimizer.step()

    def loss(self):
        return float(sum(loss.item() for loss in self.losses))


# ---- the processes --------------------------------------------------------------------------------------------------


def run_steps(program, step, devices, barrier):
    """Returns when each measured step began and ended here, ns, and the loss of the first and the last step."""
    begins, ends = [], []
    first_loss = None
    for index in range(step.warmup + step.steps):
        synchronize(devices)
        if barrier is not None:
            barrier.wait()
        begin = time.monotonic_ns()
        program.step()
        synchronize(devices)
        end = time.monotonic_ns()
        if index == 0:
            first_loss = program.loss()
        if index >= step.warmup:
            begins.append(begin)
            ends.append(end)
    return begins, ends, first_loss, program.loss()


def serve(rank, device_type, world, rendezvous_file, connection, barrier, timeout_s):
    """A process: joins the group, then runs the cases that it is sent until it is sent None."""
    if device_type == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    everywhere = [torch.device(device_type, index if device_type == "cuda" else 0) for index in range(world)]
    device = everywhere[rank]
    dist.init_process_group(
        "nccl" if device_type == "cuda" else "gloo",
        init_method="file://" + rendezvous_file,
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=timeout_s),
        **({"device_id": device} if device_type == "cuda" else {}),
    )
    connection.send(("ready",))
    while True:
        try:
            request = connection.recv()
        except EOFError:  # the parent is gone
            break
        if request is None:
            break
        step, program = request
        devices = everywhere if isinstance(program, OneProcess) else [device]
        try:
            if isinstance(program, OneProcess):
                built = OneProcessProgram(step, program, devices)
            else:
                built = PipeliningProgram(step, program, rank, device)
            answer = ("done", *run_steps(built, step, devices, None if isinstance(program, OneProcess) else barrier))
        except Refused as problem:
            answer = ("refused", str(problem))
        except Exception:
            answer = ("broken", traceback.format_exc())
        built = None
        release_memory(devices)
        connection.send(answer)
    # No destroy_process_group: it can wait for a peer that has already gone.
    os._exit(0)


class PeerProcesses:
    """One process a GPU, started once for all cases. Use as a context: they are ended on the way out."""

    def __init__(self, gpus, device_type, timeout_s):
        self.timeout_s = timeout_s
        self.folder = tempfile.TemporaryDirectory(prefix="pdl-peer-")
        rendezvous_file = os.path.join(self.folder.name, "rendezvous")
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(gpus, timeout=timeout_s)
        self.processes, self.connections = [], []
        for rank in range(gpus):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve,
                args=(rank, device_type, gpus, rendezvous_file, theirs, barrier, timeout_s),
                daemon=True,
            )
            process.start()
            theirs.close()
            self.processes.append(process)
            self.connections.append(ours)
        self._answers(range(gpus), "start of the process group")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _answers(self, ranks, what):
        """One answer of each rank, or PeerFailed: all within timeout_s, and as soon as one fails."""
        deadline = time.monotonic() + self.timeout_s
        answers = {}
        waiting = {self.connections[rank]: rank for rank in ranks}
        while waiting:
            ready = multiprocessing_wait(waiting, max(0.0, deadline - time.monotonic()))
            if not ready:
                self._fail(f"{what}: no answer of rank {sorted(waiting.values())} within {self.timeout_s} s")
            for connection in ready:
                rank = waiting.pop(connection)
                try:
                    answers[rank] = connection.recv()
                except EOFError:
                    self._fail(f"{what}: rank {rank} died")
                if answers[rank][0] == "broken":
                    self._fail(f"{what}: rank {rank} failed\n{answers[rank][1]}")
        return [answers[rank] for rank in ranks]

    def _fail(self, message):
        self.kill()
        raise PeerFailed(f"{message}\nAll processes of PyTorch were ended.")

    def run(self, step, program, what):
        ranks = [0] if isinstance(program, OneProcess) else list(range(len(self.processes)))
        for rank in ranks:
            self.connections[rank].send((step, program))
        answers = self._answers(ranks, what)
        refused = [answer[1] for answer in answers if answer[0] == "refused"]
        if refused:
            raise Refused(refused[0])
        # Rank 0 starts the step (it holds the first stage); the step ends when the last rank is idle.
        begins = answers[0][1]
        last_ends = [max(ends) for ends in zip(*(answer[2] for answer in answers))]
        losses = [answer[3:5] for answer in answers if answer[3] is not None][0]
        return Measured([(end - begin) / 1e6 for begin, end in zip(begins, last_ends)], *losses)

    def kill(self):
        for process in self.processes:
            if process.is_alive():
                process.kill()

    def end(self):
        for connection in self.connections:
            try:
                connection.send(None)
            except (BrokenPipeError, OSError):
                pass
        deadline = time.monotonic() + 10
        for process in self.processes:
            process.join(max(0.1, deadline - time.monotonic()))
        self.kill()
        self.folder.cleanup()


def environment(device_type, gpus):
    """Card, count, versions, date. No names of hosts or people."""
    facts = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": device_type,
        "gpus": gpus,
        "pytorch": torch.__version__,
        "python": platform.python_version(),
    }
    if device_type == "cuda":
        # Asked of nvidia-smi, not of CUDA: this process needs no context on any GPU.
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        try:
            lines = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
            name, driver, memory = (field.strip() for field in lines[0].split(","))
            facts |= {"card": name, "driver": driver, "card_memory": memory, "cards_in_host": len(lines)}
        except (OSError, subprocess.SubprocessError, IndexError, ValueError) as problem:
            facts["card"] = f"not known: {type(problem).__name__}"
        facts["cuda"] = torch.version.cuda
        facts["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return facts
