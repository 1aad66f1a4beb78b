#!/usr/bin/env python3
"""The programs of this build and those that clang++ compiled for the fuzzers write the same bytes.

    tests/compilers_agree.py --programs build/sim --others build/fuzz

The others are compiled with other optimization, under sanitizers. Exit code 77: they are not there.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77

TEXTBOOK = "--tf 1 --tb 2 --tcomm 0.3"
COMMANDS = [
    *(f"pdl-sim --gpus 4 --depth 16 --microbatches 8 --schedule {schedule} {TEXTBOOK} --explain --json -"
      for schedule in ("gpipe", "1f1b", "interleaved", "looped-bfs", "auto")),
    "pdl-sim --gpus 4 --depth 16 --microbatches 8 --schedule zb-v --tf 1 --tb 1 --tw 1 --tcomm 0.1 --trace -",
    "pdl-sim --gpus 4 --depth 13 --dim 5000 --batch 999 --schedule 1f1b --profile h200x4 --explain",
    "pdl-sim --gpus 4 --strategy ddp --depth 6 --dim 3584 --batch 768 --dtype amp-bf16 --profile h200x4 --json -",
    "pdl-sim --gpus 2 --strategy dp --depth 4 --dim 4096 --batch 512 --profile h200x2 --html -",
    "pdl-sim --gpus 16 --hosts 4 --strategy ddp --depth 4 --dim 4096 --batch 512 --profile h200x4 --json -",
    f"pdl-sim sweep --gpus 2,4 --depth 8,16 --schedule gpipe,1f1b --tf 1/2,1 --tb 2 --json -",
    "pdl-sim sweep --gpus 1,2,4 --strategy ddp --depth 4 --dim 1000:5000:1000 --batch 256 --profile h200x4 --csv -",
    "pdl-sim scenario --all",
    "pdl-sim schedules",
    "pdl-sim profiles --json -",
    f"pdl-sim validate {' '.join(str(run) for run in sorted((ROOT / 'data/h200x2/runs').glob('*.json'))[:8])} --csv -",
    f"pdl-calibrate --from {ROOT}/tests/golden/samples.json --out -",
    f"pdl-calibrate --from-nccl-tests {ROOT}/tests/golden/R12_two_cycles.txt --out -",
]


def answer(folder, command, place):
    program, *arguments = command.split()
    done = subprocess.run([folder / program, *arguments], cwd=place, capture_output=True)
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--others", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    programs, others = arguments.programs.resolve(), arguments.others.resolve()
    if not (others / "pdl-sim").exists():
        print(f"test skipped: no {others}/pdl-sim (tests/fuzz/fuzz.py build)")
        return SKIPPED
    compared = differing = 0
    with tempfile.TemporaryDirectory() as place:
        for command in COMMANDS:
            program = command.split()[0]
            if not (programs / program).exists() or not (others / program).exists():
                continue
            compared += 1
            here, there = answer(programs, command, place), answer(others, command, place)
            if here[0] != 0 or here != there:
                differing += 1
                print(f"{command}: exit codes {here[0]} and {there[0]}, {len(here[1])} and {len(there[1])} bytes, "
                      f"{here[2][-300:]!r} and {there[2][-300:]!r}")
    print(f"{compared - differing} of {compared} commands agree")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
