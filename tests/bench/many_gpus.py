#!/usr/bin/env python3
"""How the time of a prediction grows with the number of GPUs.

    tests/bench/many_gpus.py --pdl-sim build/sim/pdl-sim [--gpus 25000]

Predicts each shape for N, 2N and 4N GPUs and prints the seconds, the best of three. The last column is the exponent of the growth
from N to 4N: 1 is linear, 2 quadratic. No test: it fails nothing, since other work on the machine changes the times.
"""
import argparse
import math
import subprocess
import time

# {n}: the GPUs; {quarter}: a fourth of them.
SHAPES = {
    "gpipe": "--schedule gpipe --gpus {n} --microbatches 2",
    "1f1b": "--schedule 1f1b --gpus {n} --microbatches 2",
    "interleaved": "--schedule interleaved --gpus {n} --microbatches 2",
    "zb-v": "--schedule zb-v --gpus {n} --microbatches 2",
    "rendezvous": "--schedule 1f1b --gpus {n} --microbatches 2 --p2p rendezvous",
    "one thread": "--strategy mp --gpus {n} --microbatches 2",
    "ddp": "--strategy ddp --gpus {n} --batch {n}",
    "dp": "--strategy dp --gpus {n} --batch {n}",
    "pp 4 x dp": "--pp 4 --dp {quarter} --batch {n} --microbatches 2",
    "pp x dp 4": "--pp {quarter} --dp 4 --batch {n} --microbatches 2",
}


def seconds(pdl_sim, words):
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([pdl_sim, *words.split(), "--no-gantt"], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdl-sim", required=True)
    parser.add_argument("--gpus", type=int, default=25000, help="N, a multiple of 4")
    options = parser.parse_args()
    counts = [options.gpus, 2 * options.gpus, 4 * options.gpus]
    print("seconds".ljust(14) + "".join(f"{n:>10}" for n in counts) + "  exponent")
    for name, shape in SHAPES.items():
        times = [seconds(options.pdl_sim, shape.format(n=n, quarter=n // 4) + " --dim 8 --tf 1 --tb 2 --tcomm 1") for n in counts]
        exponent = math.log(times[2] / times[0]) / math.log(4)
        print(name.ljust(14) + "".join(f"{t:10.3f}" for t in times) + f"{exponent:10.2f}", flush=True)


if __name__ == "__main__":
    main()
