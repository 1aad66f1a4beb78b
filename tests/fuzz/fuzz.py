#!/usr/bin/env python3
"""The fuzzers of the simulator's doors: builds them by clang, runs them, says what they did.

    tests/fuzz/fuzz.py build                       build/fuzz, by the preset "fuzz"
    tests/fuzz/fuzz.py run profile --seconds 20    one fuzzer; a failure leaves its input in build/fuzz/found
    tests/fuzz/fuzz.py all --seconds 600           all of them, two at a time, and a table of what they did
    build/fuzz/fuzz_profile FILE                   one input again

Inputs that a run found worth keeping stay in build/fuzz/corpus, from where the next run begins. Seeds are in
tests/fuzz/seeds and, where the repository has such files anyway, there (SEEDS). Exit code 77: no clang++ here, or none
with libFuzzer; a test is skipped then. docs/robustness.md says what a fuzzer checks.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/fuzz"
SKIPPED = 77

# Beside tests/fuzz/seeds/NAME.
SEEDS = {
    "model": ["scenarios/models/*.json"],
    "nccl_tests": ["tests/golden/R*"],
    "profile": ["tests/golden/profile.json"],
    "run": ["tests/golden/run.json"],
    "samples": ["tests/golden/samples.json"],
    "scenario": ["scenarios/*.json"],
}

# No input may take longer (s), make the program larger, or ask for so much memory at once (MiB).
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=32768"]


def say(text):
    print(f"fuzz: {text}", file=sys.stderr, flush=True)


def names():
    return sorted(file.name.removesuffix("_fuzzer.cpp") for file in (ROOT / "tests/fuzz").glob("*_fuzzer.cpp"))


def has_libfuzzer():
    """clang++ is there and can link a fuzzer (Debian's clang and libclang-rt-VERSION-dev)."""
    if not shutil.which("clang++"):
        say("test skipped: no clang++ (Debian: clang, libclang-rt-14-dev)")
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "empty.cpp")
        source.write_text("extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
        flags = ["-fsanitize=fuzzer,address,undefined", "-o", str(source.with_suffix("")), str(source)]
        if subprocess.run(["clang++", *flags], capture_output=True).returncode == 0:
            return True
    say("test skipped: clang++ has no libFuzzer (Debian: libclang-rt-VERSION-dev)")
    return False


def build(jobs):
    if not has_libfuzzer():
        return SKIPPED
    configure = ["cmake", "--preset", "fuzz"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for command in (configure, ["cmake", "--build", "--preset", "fuzz", "--parallel", str(jobs)]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.stderr.write(done.stdout + done.stderr)
            return 1
    return 0


def prepare_corpus(name):
    """The folder that a run begins from and adds to."""
    corpus = BUILD / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for pattern in [f"tests/fuzz/seeds/{name}/*", *SEEDS.get(name, [])]:
        for seed in ROOT.glob(pattern):
            shutil.copyfile(seed, corpus / f"seed-{seed.name}")
    return corpus


def environment():
    values = dict(os.environ)
    if os.access("/dev/shm", os.W_OK):
        values.setdefault("TMPDIR", "/dev/shm")  # loaders that take a file read one there
    return values


def run(name, seconds):
    """Returns the exit code and what the fuzzer said."""
    program = BUILD / f"fuzz_{name}"
    if not program.exists():
        return SKIPPED, f"test skipped: no {program.relative_to(ROOT)}: tests/fuzz/fuzz.py build\n"
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    command = [str(program), str(prepare_corpus(name)),
               f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={found}/{name}-", *LIMITS]
    done = subprocess.run(command, cwd=BUILD, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def statistic(output, name):
    found = re.search(rf"^stat::{name}:\s*(\d+)", output, re.MULTILINE)
    return int(found[1]) if found else 0


def table_row(name, code, output, seconds):
    covered = re.findall(r"cov: (\d+)", output)
    return (f"| {name} | {seconds:.0f} | {statistic(output, 'number_of_executed_units'):,} | "
            f"{covered[-1] if covered else '-'} | {statistic(output, 'new_units_added'):,} | "
            f"{statistic(output, 'slowest_unit_time_sec')} | {statistic(output, 'peak_rss_mb')} | "
            f"{'clean' if code == 0 else f'failed ({code})'} |")


def run_all(chosen, seconds, jobs):
    logs = BUILD / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    rows = {}

    def one(name):
        begun = time.monotonic()
        code, output = run(name, seconds)
        (logs / f"{name}.txt").write_text(output)
        rows[name] = table_row(name, code, output, time.monotonic() - begun)
        say(rows[name])
        return code

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        codes = list(pool.map(one, chosen))
    print("| fuzzer | seconds | inputs | edges covered | kept | slowest (s) | peak memory (MiB) | |")
    print("|---|---|---|---|---|---|---|---|")
    for name in chosen:
        print(rows[name])
    return 1 if any(codes) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["build", "run", "all"])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names())}")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(names())
    if unknown:
        parser.error(f"no fuzzer {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if arguments.what == "build":
        return build(arguments.jobs)
    if arguments.what == "all":
        return run_all(arguments.names or names(), arguments.seconds, arguments.jobs)
    if len(arguments.names) != 1:
        parser.error("run takes one fuzzer")
    code, output = run(arguments.names[0], arguments.seconds)
    # All of it where it failed, the end with its statistics otherwise.
    sys.stdout.write(output if code else "".join(output.splitlines(keepends=True)[-12:]))
    return code


if __name__ == "__main__":
    sys.exit(main())
