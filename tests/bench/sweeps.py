#!/usr/bin/env python3
"""How many configurations a second and core a sweep predicts.

    tests/bench/sweeps.py --pdl-sim build/sim/pdl-sim [--rows 10000] [--profile h200x4]

Steps of about 1,000 tasks (4 GPUs, 1f1b, 70 micro-batches), by textbook costs and by a profile, whose widths and batches vary:
sizes that no probe has measured. The seconds are processor time of the whole process, the best of three, less those of a sweep of
one row: what is left is the rows. Then the same on 1 and 2 threads, and whether both have the same bytes. No test: other work on
the machine changes the times.
"""
import argparse
import hashlib
import math
import resource
import subprocess
import time

STEP = "--gpus 4 --depth 16 --schedule 1f1b --microbatches 70"


def shapes(rows):
    """Two batches, and as many widths as are needed."""
    return f"--batch 1120,2240 --dim 1024:{1024 + 4 * (rows // 2 - 1)}:4"


def run(pdl_sim, words, threads=1):
    """Processor seconds, seconds, digest of the rows."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([pdl_sim, "sweep", *words.split(), "--threads", str(threads), "--csv", "-"], check=True,
                          stdout=subprocess.PIPE)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds,
            hashlib.sha256(done.stdout).hexdigest())


def best(pdl_sim, words):
    return min(run(pdl_sim, words)[0] for _ in range(3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdl-sim", required=True)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--profile", default="h200x4")
    options = parser.parse_args()
    print("costs            rows   processor s   rows/s and core   1 thread (s)   2 threads (s)   same bytes")
    for name, costs in {"textbook": "--tf 1 --tb 2 --tcomm 0.1", options.profile: f"--profile {options.profile}"}.items():
        words = f"{STEP} {shapes(options.rows)} {costs}"
        seconds = best(options.pdl_sim, words) - best(options.pdl_sim, f"{STEP} --batch 1120 --dim 1024 {costs}")
        _, one, digest = run(options.pdl_sim, words)
        _, two, other = run(options.pdl_sim, words, 2)
        rate = (options.rows - 1) / seconds if seconds > 0 else math.nan
        print(f"{name:<12}{options.rows:>9}{seconds:>14.2f}{rate:>18.0f}{one:>15.2f}{two:>16.2f}{str(digest == other):>13}", flush=True)


if __name__ == "__main__":
    main()
