#!/usr/bin/env python3
"""Traces of pdl-sim in Holistic Trace Analysis (PyPI: HolisticTraceAnalysis 0.5.0), which reads those of PyTorch's profiler.

    tests/peers/holistic_trace_analysis.py --pdl-sim build/sim/pdl-sim

It wants a file a GPU, each with its rank, and knows collectives by the name of NCCL's kernels: both are made of the trace here, in
split(). Then its temporal breakdown is that of the run: busy, communication alone, idle. It reads whole microseconds, so that
each task may be off by one. Where GPUs wait for each other in a collective, it calls communication what a run calls idle, and
a host's sleep (--delay-ms, --straggler) computation.

Left out: what it asks of the host's side of a trace (launches, CUDA events, call stacks), which the traces do not have.

Exit code: 0 fine, 1 not, 77 (skipped) if python3 has no HolisticTraceAnalysis. It is not fetched: with what it needs it takes
hundreds of megabytes (python3 -m pip install HolisticTraceAnalysis==0.5.0).
"""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
COLLECTIVES = ("all_reduce", "broadcast", "reduce")
RUNS = ("--strategy ddp --gpus 4 --depth 8", "--strategy ddp --gpus 2 --depth 4 --dim 1024",
        "--schedule 1f1b --gpus 4 --depth 8")


def split(trace, folder):
    """{rank: file} of each GPU's events."""
    gpus = {event["pid"]: int(event["args"]["name"].split(",")[0].removeprefix("GPU ")) for event in trace["traceEvents"]
            if event["name"] == "process_name" and event["args"]["name"].startswith("GPU ")}
    files = {}
    for pid, gpu in gpus.items():
        events = [event for event in trace["traceEvents"] if event["pid"] == pid]
        for event in events:
            if event["ph"] == "X" and event["cat"] in COLLECTIVES:
                event["name"] = "ncclKernel " + event["name"]
        files[gpu] = str(folder / f"rank{gpu}.json")
        pathlib.Path(files[gpu]).write_text(json.dumps({"distributedInfo": {"rank": gpu}, "traceEvents": events}))
    return files


def problems_of(words, pdl_sim, folder):
    from hta.trace_analysis import TraceAnalysis
    run, trace = folder / "run.json", folder / "trace.json"
    subprocess.run([pdl_sim, *words.split(), "--no-gantt", "--json", run, "--trace", trace], check=True, capture_output=True)
    run, files = json.loads(run.read_text()), split(json.loads(trace.read_text()), folder)
    analysis = TraceAnalysis(trace_files=files, trace_dir=str(folder))
    breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    transfers = run["transfers"]["count"] > 0  # computation to it: only NCCL's kernels are known
    for rank, gpu in enumerate(run["gpus"]):
        off_us = 1 + sum(span["worker"] == rank for span in run["spans"])
        said = breakdown.loc[rank]
        pairs = {"kernels": (said["kernel_time(us)"], 1e3 * span_ms(run, rank))}
        if not transfers:
            pairs["busy"] = (said["compute_time(us)"], 1e3 * gpu["busy_ms"])
            pairs["communication"] = (said["non_compute_time(us)"], 1e3 * gpu["comm_ms"])
        for what, (theirs, ours) in pairs.items():
            if abs(theirs - ours) > off_us:
                yield f"{words}: GPU {rank}: {what}: {theirs} us there, {ours} us in the run"


def span_ms(run, rank):
    spans = [span for span in run["spans"] if span["worker"] == rank]
    return (max(span["end_us"] for span in spans) - min(span["start_us"] for span in spans)) / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    try:
        import hta.trace_analysis  # noqa: F401
    except ImportError as missing:
        print(f"test skipped: no HolisticTraceAnalysis here ({missing})")
        return SKIPPED
    problems = []
    for words in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            problems += problems_of(words, arguments.pdl_sim, pathlib.Path(folder))
    print("\n".join(problems) or f"{len(RUNS)} runs: the breakdown there is that of the run")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
