#!/usr/bin/env python3
"""One sweep by several processes: under mpirun, by hand, with one of them killed, and gone on with after it was killed.

    tests/shared_sweep.py --pdl-sim build/sim/pdl-sim

Every answer has the bytes of one process, or there is none, with an exit code that says so. What needs mpirun is skipped
where there is none (Open MPI's: Debian's openmpi-bin).
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PDL_SIM = None
SMALL = "sweep --gpus 2,4 --depth 16 --dim 1024,1500 --schedule gpipe,1f1b,zb-h1 --microbatches 4:32:x2 --batch 1024"
# Long enough to be killed in the middle.
LONG = "sweep --gpus 8 --depth 64 --tf 1:40 --tb 2:30 --tcomm 0.1 --schedule 1f1b --microbatches 256"
LIMIT_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(words, rank=None, size=None, port=None):
    environment = dict(os.environ)
    if rank is not None:
        environment.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=str(port))
    return subprocess.Popen([PDL_SIM, *words.split(), "--threads", "1"], env=environment, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def ended(process):
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


class SharedSweep(unittest.TestCase):
    def alone(self, words):
        code, out, err = ended(start(words))
        self.assertEqual((code, err), (0, ""))
        return out

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_under_mpirun(self):
        for form in "--csv -", "--json -":
            alone = self.alone(f"{SMALL} {form}")
            for ranks in 2, 4:
                command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), PDL_SIM, *SMALL.split(),
                           *form.split()]
                shared = subprocess.run(command, text=True, capture_output=True, timeout=LIMIT_S, check=False)
                self.assertEqual(shared.returncode, 0, shared.stderr)
                self.assertEqual(shared.stdout, alone)

    def test_a_rank_that_is_killed(self):
        for killed in 0, 1:
            with tempfile.TemporaryDirectory() as folder:
                answer = pathlib.Path(folder) / "rows.csv"
                words, port = f"{LONG} --csv {answer}", free_port()
                processes = [start(words, rank, 2, port) for rank in range(2)]
                time.sleep(0.3)
                processes[killed].send_signal(signal.SIGKILL)
                code, _, err = ended(processes[1 - killed])
                ended(processes[killed])
                self.assertEqual(code, 3, err)
                self.assertRegex(err, f"rank {killed} has ended before")
                self.assertFalse(answer.exists())

    def test_ranks_with_other_words(self):
        port = free_port()
        processes = [start(SMALL + other, rank, 2, port) for rank, other in enumerate(["", " --optimizer adam"])]
        for process in processes:
            code, out, err = ended(process)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("found another sweep", err)

    def test_gone_on_with(self):
        alone = self.alone(f"{LONG} --csv -")
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows"
            words = f"{LONG} --csv - --resume {rows}"
            killed = start(words)
            while not rows.exists() or rows.stat().st_size < 20000:
                time.sleep(0.01)
            killed.send_signal(signal.SIGKILL)
            ended(killed)
            begun = len(rows.read_text(encoding="utf-8").splitlines())
            self.assertGreater(begun, 10)
            code, out, err = ended(start(words))
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out, alone)
            self.assertFalse(rows.exists())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdl-sim", required=True)
    options, rest = parser.parse_known_args()
    PDL_SIM = options.pdl_sim
    unittest.main(argv=[sys.argv[0], *rest])
