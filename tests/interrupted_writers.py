#!/usr/bin/env python3
"""Whatever writes a file writes it whole or not at all: killed in the middle, or with a full disk, the old one stays.

Every flag that --help shows with FILE is tried: of pdl-sim, its subcommands and pdl-calibrate --from. A library that is
loaded before them (tests/support/write_fault.cpp) kills the program at its first write, its second and so on, and
between the last write and the renaming; or says from then on that the disk is full, which is exit code 2 with the name
of the file, and leaves no temporary file behind.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = LIBRARY = None
OLD = b"an old file\n"

# What each command needs to write something. A subcommand that is not here fails the test.
COMMANDS = {
    "": "--gpus 2 --depth 4 --tf 1 --tb 2 --microbatches 64",
    "compare": "a.json a.json",
    "plan": "--gpus 2 --depth 4 --dim 4096 --batch 512 --memory 80GiB",
    "profiles": "",
    "scenario": f"{ROOT}/scenarios/hw3_2_model_size.json",
    "schedules": "",
    "sweep": "--gpus 2,4 --depth 4:64:x2 --tf 1 --tb 2",
    "validate": str(next((ROOT / "data/h200x2/runs_on_host_3").glob("single_gpus1_*"))),
}


def flags_with_a_file(program, command):
    shown = subprocess.run([PROGRAMS / program, *command.split(), "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"(--[a-z-]+) FILE\|-", shown.stdout)


def subcommands():
    shown = subprocess.run([PROGRAMS / "pdl-sim", "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) ", shown.split("Subcommands:")[1], re.MULTILINE)


class Writers(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.place.name)
        self.file = self.folder / "out.file"

    def tearDown(self):
        self.place.cleanup()

    def run_with(self, command, fault):
        """Over an old file. Returns the code, and what was said."""
        for left in self.folder.glob("out.file*"):
            left.unlink()
        self.file.write_bytes(OLD)
        environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), PDL_WRITE_FAULT=fault)
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, timeout=120)
        return done.returncode, done.stderr.decode(errors="replace")

    def check(self, command):
        code, said = self.run_with(command, "")
        self.assertEqual(code, 0, said)
        whole = self.file.read_bytes()
        self.assertNotEqual(whole, OLD)
        self.assertEqual(self.run_with(command, "kill:rename")[0], -9)
        self.assertEqual(self.file.read_bytes(), OLD, "killed before the renaming")
        at = 1
        while self.killed_and_full(command, at):
            at = at + 1 if at < 3 else 2 * at  # a page has hundreds
        self.assertGreater(at, 1, "nothing was written to a file")
        self.assertEqual(self.file.read_bytes(), whole, "with no fault any more")

    def killed_and_full(self, command, at):
        """False: it does not write so many times."""
        code, said = self.run_with(command, f"kill:{at}")
        if code == 0:
            return False
        self.assertEqual(code, -9, said)
        self.assertEqual(self.file.read_bytes(), OLD, f"killed at write {at}")
        code, said = self.run_with(command, f"full:{at}")
        self.assertEqual(code, 2, said)
        self.assertIn("out.file: found a file that cannot be written (No space left on device)", said)
        self.assertEqual(self.file.read_bytes(), OLD, f"full at write {at}")
        self.assertEqual([file.name for file in self.folder.glob("out.file*")], ["out.file"], "a temporary file is left")
        return True

    def test_every_output_of_pdl_sim(self):
        run = [PROGRAMS / "pdl-sim", *COMMANDS[""].split(), "--json", self.folder / "a.json"]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        for command in ["", *subcommands()]:
            self.assertIn(command, COMMANDS, "a subcommand that this test does not know")
            flags = flags_with_a_file("pdl-sim", command)
            self.assertTrue(flags, f"{command}: --help shows no flag with FILE|-")
            for flag in flags:
                with self.subTest(command=command, flag=flag):
                    self.check([PROGRAMS / "pdl-sim", *command.split(), *COMMANDS[command].split(), flag, self.file])

    def test_profile_of_pdl_calibrate(self):
        if not (PROGRAMS / "pdl-calibrate").exists():
            self.skipTest("no pdl-calibrate in this build")
        samples = ROOT / "tests/golden/samples.json"
        self.check([PROGRAMS / "pdl-calibrate", "--from", samples, "--out", self.file])

    def test_standard_output_that_is_full(self):
        for arguments in ("--gpus 2 --tf 1 --tb 2", "--gpus 2 --tf 1 --tb 2 --json -", "profiles", "--help", "--man-page"):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAMS / "pdl-sim", *arguments.split()], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(b"standard output", done.stderr)

    def test_a_limit_of_file_sizes(self):
        limited = f"ulimit -f 8; exec '{PROGRAMS}/pdl-sim' {COMMANDS['']} --html out.file"
        done = subprocess.run(["bash", "-c", limited], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(b"out.file: found a file that cannot be written (File too large)", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_device_that_is_full(self):
        run = [PROGRAMS / "pdl-sim", *COMMANDS[""].split(), "--json", "/dev/full"]
        done = subprocess.run(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAMS, LIBRARY = arguments.programs.resolve(), arguments.library.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
