#!/usr/bin/env python3
"""Do two builds of pdl-sim say the same, to the byte?

    cmake -S . -B build/clang -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DPDL_TESTS=OFF && cmake --build build/clang --target pdl-sim
    tests/same_bytes.py build/sim/pdl-sim build/clang/pdl-sim

Runs the same commands with both and compares standard output, standard error and exit code: every schedule with textbook costs, every
strategy by the bundled profiles, as text, JSON and trace; the scenarios; every measured run of data/. Of other compilers, of other
options, of the version before a change. Exit code 1 names the commands that differ.
"""
import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEDULES = "naive gpipe 1f1b option-c interleaved interleaved-zb looped-bfs zb-h1 zb-h2 zb-v dualpipe-v".split()
TEXTBOOK = "--depth 32 --batch 64 --dim 64 --tf 1 --tb 2"
RUNS_A_CALL = 60


def commands():
    for schedule in SCHEDULES:
        for gpus, microbatches in ((2, 8), (4, 8), (8, 16), (4, 4)):
            pipeline = f"--schedule {schedule} --gpus {gpus} --microbatches {microbatches}"
            yield f"{pipeline} {TEXTBOOK} --tcomm 0.17777216"
            yield f"{pipeline} {TEXTBOOK} --tcomm 1.7 --json -"
            yield f"{pipeline} {TEXTBOOK} --tw 1 --tcomm 1.7 --p2p rendezvous --json -"
            yield f"{pipeline} {TEXTBOOK} --tcomm 3 --trace -"
            yield f"{pipeline} --depth 32 --batch 2048 --explain"
            yield f"{pipeline} --depth 32 --batch 2048 --transport nccl --json -"
        yield f"--schedule {schedule} --pp 4 --dp 4 --microbatches 8 --depth 16 --batch 128 --dim 64 --tf 1 --tb 2 --tcomm 0.3 --accum 2 --json -"
        yield f"--schedule {schedule} --pp 2 --dp 2 --microbatches 4 --depth 16 --batch 128 --dim 4096"
        yield f"--schedule {schedule} --gpus 4 --microbatches 8 --depth 16 --straggler 1:3 --delay-ms 0.5 --tf 1 --tb 2 --tcomm 0.2"
        yield f"--schedule {schedule} --gpus 4 --microbatches 8 --depth 16 --html -"
        yield f"--schedule {schedule} --gpus 4 --microbatches 8 --depth 16 --schedule-csv -"
        yield f"--schedule {schedule} --gpus 70 --microbatches 140 --depth 140 --batch 600 --tf 1 --tb 2 --tcomm 1.9 --json -"
    for strategy in "single mp pp dp ddp".split():
        for gpus in (1, 2, 3, 4, 8):
            for words in ("", "--json -", "--explain", "--dtype amp-bf16", "--dtype amp-fp16 --optimizer adam --json -",
                          "--accum 3 --no-sync 1", "--straggler 0:5 --json -", "--recompute 1 --microbatches 4",
                          "--depth 7 --batch 13 --tf 1 --tb 2 --tcomm .7 --json -", "--workers one", "--trace -"):
                yield f"--strategy {strategy} --gpus {gpus} --dim 2048 {words}"
    yield "schedules"
    yield "profiles"
    yield "--schedule auto --gpus 4 --microbatches 4 --tf 1 --tb 2 --tcomm .1"
    yield "sweep --gpus 1,2,4 --strategy ddp,pp,dp,mp --microbatches 1,4 --json -"
    yield "sweep --gpus 2,4 --schedule gpipe,1f1b,zb-v,dualpipe-v,interleaved --microbatches 8,16 --tf 1 --tb 2 --tcomm .3"
    for scenario in sorted((ROOT / "scenarios").glob("*.json")):
        yield f"scenario {scenario.relative_to(ROOT)}"
        yield f"scenario {scenario.relative_to(ROOT)} --json -"
    for folder in sorted((ROOT / "data").glob("*/runs")):
        runs = [str(run.relative_to(ROOT)) for run in sorted(folder.glob("*.json"))]
        for begin in range(0, len(runs), RUNS_A_CALL):
            yield "validate " + " ".join(runs[begin:begin + RUNS_A_CALL])


def answer(program, command):
    ran = subprocess.run([program, *command.split()], cwd=ROOT, capture_output=True)
    return ran.returncode, ran.stdout, ran.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs=2, type=lambda text: str(Path(text).resolve()), metavar="PDL_SIM")
    first, second = parser.parse_args().programs
    asked = list(commands())
    with ThreadPoolExecutor(2) as pool:
        same = list(pool.map(lambda command: answer(first, command) == answer(second, command), asked))
    different = [command for command, alike in zip(asked, same) if not alike]
    for command in different:
        print(f"differs: pdl-sim {command[:300]}")
    print(f"{len(asked)} commands, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
