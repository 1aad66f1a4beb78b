#!/usr/bin/env python3
"""PyTorch's own DDP, DataParallel, AMP and gradient accumulation: step times of the shapes that pdl-run measures.

  tests/peers/ddp_amp.py --gpus 1,2,4 --json ddp_peers.json
  tests/peers/ddp_amp.py --gpus 2 --groups ddp,accum --sizes 4096x6 --batches 256
  tests/peers/ddp_amp.py --device cpu --gpus 2 --sizes 64x4 --batches 32 --steps 3 --warmup 1     a trial without GPUs

A row a case: the words of pdl-run that name the same training (strategy, gpus, dim, depth, batch, accum, no-sync, dtype), and
step_time_ms {median, p25, p75, n}. What is trained: blocks Linear(dim, dim) + ReLU, mean-squared error, SGD as torch.optim
runs it by default, no torch.compile. `batch` is that of all GPUs and of one accumulation round.

Groups:
  ddp     fp32, every size and batch; one GPU too, through DistributedDataParallel
  dp      nn.DataParallel, fp32, every size and batch (2 GPUs and more)
  amp     DDP with autocast and GradScaler (amp-fp16) and with autocast alone (amp-bf16), every size and batch
  accum   DDP, the largest batch of at most 64 and every size, 4 and 16 rounds, with and without no_sync, fp32 and amp-fp16

Processes start once for a number of GPUs and run all its cases. A step is timed from after a barrier with idle devices to
idle devices again, from the first rank that starts to the last that ends, on the clock that they share. Exit code: 0 if every
case was run, 1 if not (those that were not are listed with a note), 2 for wrong flags.
"""

import argparse
import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "pytorch"))
from programs import environment  # noqa: E402

GROUPS = ("ddp", "dp", "amp", "accum")
ACCUM_ROUNDS = (4, 16)
LARGEST_ACCUM_BATCH = 64
ANSWER_TIMEOUT_S = 600


@dataclass(frozen=True)
class Case:
    """The settings of pdl-run with the same names."""

    strategy: str
    gpus: int
    dim: int
    depth: int
    batch: int
    dtype: str = "fp32"
    accum: int = 1
    no_sync: int = 0


def cases_of(gpus, sizes, batches, groups):
    cases = []
    for dim, depth in sizes:
        for batch in batches:
            if "ddp" in groups:
                cases.append(Case("ddp", gpus, dim, depth, batch))
            if "amp" in groups:
                cases += [Case("ddp", gpus, dim, depth, batch, dtype) for dtype in ("amp-fp16", "amp-bf16")]
            if "dp" in groups and gpus > 1:
                cases.append(Case("dp", gpus, dim, depth, batch))
        small = [batch for batch in batches if batch <= LARGEST_ACCUM_BATCH]
        if "accum" in groups and small:
            cases += [
                Case("ddp", gpus, dim, depth, max(small), dtype, accum, no_sync)
                for dtype in ("fp32", "amp-fp16")
                for accum in ACCUM_ROUNDS
                for no_sync in (0, 1)
            ]
    return cases


class Training:
    """One size on one rank; the model is made once for all of its cases."""

    def __init__(self, case, rank, device):
        torch.manual_seed(0)
        self.rank, self.device = rank, device
        layers = []
        for _ in range(case.depth):
            layers += [nn.Linear(case.dim, case.dim, device=device), nn.ReLU()]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.wrapped = {}

    def wrap(self, case):
        if case.strategy not in self.wrapped:
            if case.strategy == "dp":
                self.wrapped["dp"] = nn.DataParallel(self.model, device_ids=list(range(case.gpus)))
            else:
                ids = [self.device.index] if self.device.type == "cuda" else None
                self.wrapped["ddp"] = nn.parallel.DistributedDataParallel(self.model, device_ids=ids)
        return self.wrapped[case.strategy]

    def step_of(self, case):
        """A function that does one step, and the GradScaler or None."""
        model, optimizer, device = self.wrap(case), self.optimizer, self.device
        rows = case.batch
        if case.strategy == "ddp":
            rows = case.batch // case.gpus + (self.rank < case.batch % case.gpus)
        x = torch.randn(rows, case.dim, device=device)
        target = torch.randn(rows, case.dim, device=device)
        loss_of = nn.MSELoss()
        amp = case.dtype.startswith("amp")
        half = torch.float16 if case.dtype == "amp-fp16" else torch.bfloat16
        scaler = torch.amp.GradScaler(device.type) if case.dtype == "amp-fp16" else None

        def step():
            optimizer.zero_grad()
            for index in range(case.accum):
                quiet = case.no_sync and index + 1 < case.accum
                with model.no_sync() if quiet else contextlib.nullcontext():
                    with torch.autocast(device.type, dtype=half, enabled=amp):
                        loss = loss_of(model(x), target)
                        if case.accum > 1:
                            loss = loss / case.accum
                    (scaler.scale(loss) if scaler else loss).backward()
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()

        return step, scaler


def synchronize(devices):
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def measure(step, scaler, devices, barrier, warmup, steps):
    """Begin and end of each measured step, ns, and how many steps GradScaler skipped."""
    begins, ends, skipped = [], [], 0
    for index in range(warmup + steps):
        before = scaler.get_scale() if scaler else 0
        synchronize(devices)
        if barrier:
            barrier.wait()
        begin = time.monotonic_ns()
        step()
        synchronize(devices)
        end = time.monotonic_ns()
        if scaler and scaler.get_scale() < before:
            skipped += 1
        if index >= warmup:
            begins.append(begin)
            ends.append(end)
    return begins, ends, skipped


def serve(rank, world, device_type, rendezvous_file, cases, options, barrier, answers):
    try:
        everywhere = [torch.device(device_type, index) if device_type == "cuda" else torch.device("cpu") for index in range(world)]
        device = everywhere[rank]
        if device_type == "cuda":
            torch.cuda.set_device(device)
        else:
            torch.set_num_threads(1)
        dist.init_process_group(
            "nccl" if device_type == "cuda" else "gloo",
            init_method="file://" + rendezvous_file,
            rank=rank,
            world_size=world,
            **({"device_id": device} if device_type == "cuda" else {}),
        )
        training, size = None, None
        for number, case in enumerate(cases):
            if (case.dim, case.depth) != size:
                training = None
                gc.collect()
                training, size = Training(case, rank, device), (case.dim, case.depth)
            alone = case.strategy == "dp"
            answer = None
            if not alone or rank == 0:
                step, scaler = training.step_of(case)
                devices = everywhere if alone else [device]
                answer = measure(step, scaler, devices, None if alone else barrier, options["warmup"], options["steps"])
                step = scaler = None
            barrier.wait()
            answers.put((number, rank, answer))
        answers.put((None, rank, None))
        barrier.wait()
    except BaseException:
        answers.put((None, rank, traceback.format_exc()))
        answers.close()
        answers.join_thread()
        barrier.abort()
    # No destroy_process_group: it can wait for a peer that has already gone.
    answers.close()
    answers.join_thread()
    os._exit(0)


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def row_of(case, answers):
    answers = [answer for answer in answers.values() if answer is not None]
    begins = [min(of_step) for of_step in zip(*(answer[0] for answer in answers))]
    ends = [max(of_step) for of_step in zip(*(answer[1] for answer in answers))]
    ms = [(end - begin) / 1e6 for begin, end in zip(begins, ends)]
    low, high = quartiles(ms)
    row = asdict(case)
    row["no-sync"] = row.pop("no_sync")
    row["step_time_ms"] = {"median": statistics.median(ms), "p25": low, "p75": high, "n": len(ms)}
    row["skipped_steps"] = answers[0][2]
    return row


def run_cases(gpus, cases, device_type, options):
    """Rows of the cases that were run, and what went wrong, or None."""
    context = multiprocessing.get_context("spawn")
    answers, barrier = context.Queue(), context.Barrier(gpus, timeout=ANSWER_TIMEOUT_S)
    rows, problem, collected = [], None, {}
    with tempfile.TemporaryDirectory(prefix="pdl-peer-") as folder:
        file = os.path.join(folder, "rendezvous")
        processes = [
            context.Process(target=serve, args=(rank, gpus, device_type, file, cases, options, barrier, answers), daemon=True)
            for rank in range(gpus)
        ]
        for process in processes:
            process.start()
        done = 0
        while done < gpus and problem is None:
            try:
                number, rank, answer = answers.get(timeout=ANSWER_TIMEOUT_S)
            except Exception:
                problem = f"no answer within {ANSWER_TIMEOUT_S} s"
                break
            if number is None:
                done += 1
                problem = answer and f"rank {rank} failed\n{answer}"
                continue
            of_case = collected.setdefault(number, {})
            of_case[rank] = answer
            if len(of_case) == gpus:
                rows.append(row_of(cases[number], collected.pop(number)))
                print(line_of(rows[-1]), file=sys.stderr, flush=True)
        for process in processes:
            process.join(0.1 if problem else 20)
            if process.is_alive():
                process.kill()
    return rows, problem


def line_of(row):
    words = f"{row['strategy']} {row['gpus']} GPU, {row['dim']} x {row['depth']}, batch {row['batch']}, {row['dtype']}"
    if row["accum"] > 1:
        words += f", {row['accum']} rounds{', no_sync' if row['no-sync'] else ''}"
    time_ms = row["step_time_ms"]
    return f"  {words:62} {time_ms['median']:10.3f} ms   {time_ms['p25']:.3f}..{time_ms['p75']:.3f}"


def numbers(text):
    values = text.split(",")
    if not all(value.isdigit() and int(value) > 0 for value in values):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected whole numbers of at least 1: 1,2,4")
    return [int(value) for value in values]


def size_list(text):
    sizes = []
    for part in text.split(","):
        dim, _, depth = part.partition("x")
        if not (dim.isdigit() and depth.isdigit() and int(dim) > 0 and int(depth) > 0):
            raise argparse.ArgumentTypeError(f"found {part!r}, expected DIMxDEPTH: 4096x6")
        sizes.append((int(dim), int(depth)))
    return sizes


def group_list(text):
    groups = text.split(",")
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"found {unknown[0]!r}, expected some of {', '.join(GROUPS)}")
    return groups


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    add = parser.add_argument
    add("--gpus", type=numbers, default=[1, 2, 4], metavar="N,...", help="default 1,2,4")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--sizes", type=size_list, default=size_list("8192x8,4096x6,1024x2"), metavar="DIMxDEPTH,...")
    add("--batches", type=numbers, default=[32, 64, 128, 256, 2048], metavar="B,...")
    add("--groups", type=group_list, default=list(GROUPS), metavar="NAME,...", help="default: " + ",".join(GROUPS))
    add("--steps", type=int, default=30, help="measured steps")
    add("--warmup", type=int, default=5, help="steps before them that are dropped")
    add("--json", metavar="FILE", help="default: standard output")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.warmup < 0:
        parser.error("--steps at least 1, --warmup at least 0")
    if arguments.device == "cpu" and "dp" in arguments.groups:
        arguments.groups.remove("dp")  # DataParallel is for GPUs
    return arguments


def main():
    arguments = parse_arguments()
    options = {"steps": arguments.steps, "warmup": arguments.warmup}
    rows, missing = [], []
    for gpus in arguments.gpus:
        batches = [batch for batch in arguments.batches if batch >= gpus]
        cases = cases_of(gpus, arguments.sizes, batches, arguments.groups)
        measured, problem = run_cases(gpus, cases, arguments.device, options)
        rows += measured
        if problem:
            missing.append({"gpus": gpus, "cases": len(cases) - len(measured), "note": problem})
            print(f"{gpus} GPUs: {len(cases) - len(measured)} cases were not run: {problem}", file=sys.stderr)
    result = {
        "environment": environment(arguments.device, max(arguments.gpus)) | {"steps": arguments.steps, "warmup": arguments.warmup},
        "rows": rows,
        "missing": missing,
    }
    text = json.dumps(result, indent=1) + "\n"
    if arguments.json:
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(arguments.json)), delete=False) as file:
            file.write(text)
        os.replace(file.name, arguments.json)
    else:
        sys.stdout.write(text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
