#!/usr/bin/env python3
"""Plain PyTorch beside pdl-run: the same training steps on the same GPUs, one after the other, and the ratio of times.

  tests/peers/peer_pipeline.py --pdl-run build/all/pdl-run --gpus 4 --json peers.json
  tests/peers/peer_pipeline.py --gpus 4 --cases all               PyTorch alone, every case
  tests/peers/peer_pipeline.py --device cpu --gpus 2 --size 64x8:64 --steps 3 --pdl-run ...     a trial without GPUs

  case                                PyTorch ms   p25..p75          ours ms   ours / PyTorch
  4096 x 16, batch 4096  1f1b M 8          56.58   56.41..56.70        53.01            0.937

Each case runs PyTorch, then pdl-run, so that both see the same hardware in the same state. Warm-up steps are dropped;
the median of the measured steps counts. What a step is: runtime/pytorch/programs.py. Exit code: 0 if every case that can be
run was run on both sides, 1 if not, 2 for wrong flags.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "pytorch"))
from programs import OneProcess, PeerFailed, PeerProcesses, Pipelining, Refused, Step, environment  # noqa: E402


@dataclass(frozen=True)
class Program:
    """A line of the comparison: PyTorch's program, the words that make pdl-run do the same, and the micro-batches."""

    name: str
    group: str
    peer: object
    ours: tuple
    quick: tuple
    all: tuple


WORKER_PER_GPU = ("--transport", "copy", "--workers", "thread")
ONE_WORKER = ("--workers", "one")

PROGRAMS = [
    Program("gpipe", "pipelining", Pipelining("GPipe"), ("--schedule", "gpipe", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    Program("1f1b", "pipelining", Pipelining("1F1B"), ("--schedule", "1f1b", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    Program("interleaved", "pipelining", Pipelining("Interleaved1F1B", 2), ("--schedule", "interleaved", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    Program("looped-bfs", "pipelining", Pipelining("LoopedBFS", 2), ("--schedule", "looped-bfs", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    Program("interleaved-zb", "pipelining", Pipelining("InterleavedZeroBubble", 2),
            ("--schedule", "interleaved-zb", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    Program("zb-v", "pipelining", Pipelining("ZBVZeroBubble", 2, "v"), ("--schedule", "zb-v", *WORKER_PER_GPU), (8,), (4, 8, 16)),
    # PyTorch and we refuse fewer micro-batches than stages.
    Program("dualpipe-v", "pipelining", Pipelining("DualPipeV", 2, "v"), ("--schedule", "dualpipe-v", *WORKER_PER_GPU), (8,), (8, 16)),
    Program("naive split", "one process", OneProcess("option-a"), ("--strategy", "mp"), (1,), (1,)),
    Program("option A", "one process", OneProcess("option-a"), ("--schedule", "naive", *ONE_WORKER), (4,), (2, 4, 8)),
    Program("option C", "one process", OneProcess("option-c"), ("--schedule", "option-c", *ONE_WORKER), (4,), (2, 4, 8)),
    Program("option B", "one process", OneProcess("option-b"), ("--schedule", "gpipe", *ONE_WORKER), (4,), (2, 4, 8)),
]


@dataclass(frozen=True)
class Size:
    dim: int
    depth: int
    batch: int

    def __str__(self):
        return f"{self.dim} x {self.depth}, batch {self.batch}"


DEFAULT_SIZES = [Size(4096, 16, 4096), Size(8192, 8, 2048)]


@dataclass
class Row:
    name: str
    program: Program
    size: Size
    microbatches: int
    peer_ms: list | None = None
    peer_losses: tuple | None = None
    ours: dict | None = None  # the JSON of pdl-run
    note: str = ""
    failed: bool = False

    @property
    def peer_median(self):
        return statistics.median(self.peer_ms) if self.peer_ms else None

    @property
    def ours_median(self):
        return self.ours["step_time_ms"]["median"] if self.ours else None

    @property
    def ratio(self):
        return self.ours_median / self.peer_median if self.ours and self.peer_ms else None


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def size_argument(text):
    match = re.fullmatch(r"(\d+)x(\d+):(\d+)", text)
    if not match or not all(int(number) > 0 for number in match.groups()):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected DIMxDEPTH:BATCH, for instance 4096x16:4096")
    return Size(*map(int, match.groups()))


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number of at least 1")
    return int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    default_sizes = " and ".join(f"{size.dim}x{size.depth}:{size.batch}" for size in DEFAULT_SIZES)
    names = [program.name for program in PROGRAMS]
    add = parser.add_argument
    add("--pdl-run", metavar="FILE", help="our program; without it PyTorch runs alone")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--gpus", type=positive, default=4, metavar="N")
    add("--cases", choices=("quick", "all"), default="quick", help="quick: one number of micro-batches a program")
    add("--program", action="append", choices=names, help="only this one; repeatable")
    add("--size", action="append", type=size_argument, metavar="DIMxDEPTH:BATCH",
        help=f"only this one; repeatable; default {default_sizes}")
    add("--warmup", type=positive, default=5, metavar="N", help="steps dropped (default 5)")
    add("--steps", type=positive, default=30, metavar="N", help="steps measured (default 30)")
    add("--timeout", type=positive, default=120, metavar="S", help="longest that one case may take (default 120 s)")
    add("--json", metavar="FILE", help="the table as JSON")
    arguments = parser.parse_args()
    if arguments.pdl_run and not os.access(arguments.pdl_run, os.X_OK):
        parser.error(f"--pdl-run: found {arguments.pdl_run!r}, expected a program that can be executed")
    return arguments


def rows_of(arguments):
    rows = []
    for size in arguments.size or DEFAULT_SIZES:
        for program in PROGRAMS:
            if arguments.program and program.name not in arguments.program:
                continue
            for microbatches in program.quick if arguments.cases == "quick" else program.all:
                rows.append(Row(f"{size}  {program.name} M {microbatches}", program, size, microbatches))
    return rows


class OursFailed(Exception):
    pass


def run_ours(arguments, row):
    """Runs pdl-run on the same case and returns its JSON."""
    with tempfile.TemporaryDirectory(prefix="pdl-peer-") as folder:
        result = os.path.join(folder, "run.json")
        size = row.size
        command = [arguments.pdl_run, "--device", arguments.device, "--gpus", arguments.gpus, "--depth", size.depth,
                   "--dim", size.dim, "--batch", size.batch, "--microbatches", row.microbatches, "--optimizer", "sgd",
                   "--warmup", arguments.warmup, "--steps", arguments.steps, *row.program.ours, "--json", result]
        # Its own session, so that a time-out ends its workers with it.
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=arguments.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise OursFailed(f"pdl-run did not end within {arguments.timeout} s and was ended") from None
        if process.returncode != 0:
            raise OursFailed(f"pdl-run ended with {process.returncode}: {' | '.join(output.strip().splitlines()[-3:])}")
        try:
            with open(result, encoding="utf-8") as file:
                run = json.load(file)
            run["step_time_ms"]["median"] + 0.0
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise OursFailed(f"pdl-run's JSON: {type(problem).__name__}: {problem}") from None
        return run


def run_row(arguments, row, peers):
    step = Step(arguments.gpus, row.size.depth, row.size.dim, row.size.batch, row.microbatches,
                warmup=arguments.warmup, steps=arguments.steps)
    try:
        measured = peers.run(step, row.program.peer, row.name)
        row.peer_ms, row.peer_losses = measured.step_ms, (measured.first_loss, measured.last_loss)
    except Refused as problem:
        row.note = f"PyTorch refuses: {problem}"
    if arguments.pdl_run:
        try:
            row.ours = run_ours(arguments, row)
        except OursFailed as problem:
            row.note = "; ".join(filter(None, [row.note, str(problem)]))
            row.failed = True


def number(value, width, digits=2):
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


HEADING = f"{'case':<40} {'PyTorch ms':>11} {'p25..p75':>17} {'ours ms':>11} {'p25..p75':>17} {'ours / PyTorch':>15}"


def spread_text(low, high):
    return f"{low:.2f}..{high:.2f}"


def table_line(row):
    peer = spread_text(*quartiles(row.peer_ms)) if row.peer_ms else "-"
    ours = row.ours["step_time_ms"] if row.ours else {}
    ours = spread_text(ours["p25"], ours["p75"]) if {"p25", "p75"} <= ours.keys() else "-"
    line = (f"{row.name:<40} {number(row.peer_median, 11)} {peer:>17} {number(row.ours_median, 11)} {ours:>17} "
            f"{number(row.ratio, 15, 3)}")
    return f"{line}\n    {row.note}" if row.note else line


def summary_lines(rows):
    for group in dict.fromkeys(row.program.group for row in rows):
        compared = [row for row in rows if row.program.group == group and row.ratio is not None]
        if compared:
            worst = max(compared, key=lambda row: row.ratio)
            mean = statistics.geometric_mean(row.ratio for row in compared)
            yield (f"{group}: {len(compared)} cases, ours / PyTorch {mean:.3f} (geometric mean), "
                   f"worst {worst.ratio:.3f} ({worst.name})")


def row_json(row):
    result = {"case": row.name, "program": row.program.name, "group": row.program.group, "dim": row.size.dim,
              "depth": row.size.depth, "batch": row.size.batch, "microbatches": row.microbatches}
    if row.peer_ms:
        low, high = quartiles(row.peer_ms)
        result["pytorch_step_time_ms"] = {"median": row.peer_median, "p25": low, "p75": high, "n": len(row.peer_ms)}
        result["pytorch_losses"] = {"first_step": row.peer_losses[0], "last_step": row.peer_losses[1]}
    if row.ours:
        result["ours_step_time_ms"] = row.ours["step_time_ms"]
        result["ours_warnings"] = row.ours.get("warnings", [])
    if row.ratio is not None:
        result["ratio_ours_to_pytorch"] = row.ratio
    if row.note:
        result["note"] = row.note
    return result


def write_json(path, content):
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def main():
    arguments = parse_arguments()
    facts = environment(arguments.device, arguments.gpus)
    if facts.get("cards_in_host", arguments.gpus) < arguments.gpus:
        print(f"--gpus: found {arguments.gpus}, expected at most {facts['cards_in_host']}, the cards of this host",
              file=sys.stderr)
        return 2
    rows = rows_of(arguments)
    print(f"{facts.get('card', 'CPU')} x {arguments.gpus}, PyTorch {facts['pytorch']}, {arguments.warmup} warm-up and "
          f"{arguments.steps} measured steps, fp32, SGD; one case after the other, PyTorch then ours")
    print(HEADING, flush=True)
    began = time.monotonic()
    done, failure = [], None
    try:
        with PeerProcesses(arguments.gpus, arguments.device, arguments.timeout) as peers:
            for row in rows:
                run_row(arguments, row, peers)
                done.append(row)
                print(table_line(row), flush=True)
    except PeerFailed as problem:
        failure = str(problem)
    for line in summary_lines(done):
        print(line)
    print(f"{len(done)} of {len(rows)} cases in {time.monotonic() - began:.0f} s")
    if failure:
        print(failure, file=sys.stderr)
    if arguments.json:
        facts |= {"warmup_steps": arguments.warmup, "measured_steps": arguments.steps}
        write_json(arguments.json, {"environment": facts, "cases": [row_json(row) for row in done], "error": failure})
    return 1 if failure or any(row.failed for row in done) else 0


if __name__ == "__main__":
    sys.exit(main())
