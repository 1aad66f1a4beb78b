#!/usr/bin/env python3
"""Completion and manual pages, as the programs of a build write them of themselves.

    tests/program_texts.py --build build/sim

A bash without any of its user's files loads the script of each program and completes; zsh does where there is one (in its own
test of the syntax alone); groff formats each manual page without a warning, where there is one.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = None


def programs():
    return [path for path in (BUILD / name for name in ("pdl-sim", "pdl-run", "pdl-calibrate")) if path.is_file()]


def text_of(program, *flag):
    return subprocess.run([program, *flag], check=True, capture_output=True, encoding="utf-8").stdout


class Bash(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "my run.json").touch()

    def completed(self, *words, program="pdl-sim"):
        """What bash offers for the last of the words, behind the program."""
        script = text_of(BUILD / program, "--completion", "bash")
        command = (f'{script}\nCOMP_WORDS=({program} "$@"); COMP_CWORD=$#; _{program.replace("-", "_")}\n'
                   'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "--noprofile", "-u", "-c", command, "bash", *words], capture_output=True,
                              encoding="utf-8", cwd=self.folder)
        self.assertEqual("", done.stderr)
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []

    def test_flags(self):
        self.assertEqual(["--schedule", "--schedule-csv"], self.completed("--sched"))
        self.assertEqual(["--scaling"], self.completed("sweep", "--scali"))
        self.assertEqual([], self.completed("--scali"))  # of sweep alone

    def test_subcommands(self):
        self.assertEqual(["sweep"], self.completed("sw"))
        self.assertIn("scenario", self.completed(""))
        self.assertEqual([], self.completed("sweep", "comp"))

    def test_values(self):
        self.assertEqual(["zb-h1", "zb-h2", "zb-v"], self.completed("--schedule", "zb"))
        self.assertEqual(["zb-h1", "zb-h2", "zb-v"], self.completed("--schedule", "=", "zb"))
        self.assertEqual(["fp32", "tf32", "amp-fp16", "amp-bf16"], self.completed("--dtype", ""))
        self.assertEqual(["single"], self.completed("--gpus", "4", "--strategy", "s"))
        self.assertEqual(["h200x2", "h200x4"], self.completed("--profile", "h200"))
        self.assertEqual([], self.completed("--depth", ""))

    def test_lists_of_a_sweep(self):
        self.assertEqual(["gpipe,1f1b"], self.completed("sweep", "--schedule", "gpipe,1"))
        self.assertEqual([], self.completed("--schedule", "gpipe,1"))  # a run has one

    def test_files_and_scenarios(self):
        self.assertEqual(["my run.json"], self.completed("--json", "my"))
        self.assertEqual(["my run.json"], self.completed("compare", "m"))
        self.assertEqual(["hw3_4_more_gpus"], self.completed("scenario", "hw3_4"))

    def test_every_program_completes_its_own_flags(self):
        for program in programs():
            self.assertIn("--completion", self.completed("--comp", program=program.name), program.name)
        if (BUILD / "pdl-calibrate").is_file():
            self.assertEqual(["fp32,tf32"], self.completed("--dtypes", "fp32,tf", program="pdl-calibrate"))

    def test_zsh_can_read_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        for program in programs():
            script = self.folder / "_script"
            script.write_text(text_of(program, "--completion", "zsh"))
            self.assertTrue(script.read_text().startswith("#compdef " + program.name + "\n"))
            subprocess.run(["zsh", "-f", "-n", script], check=True)

    def test_another_shell_is_refused(self):
        done = subprocess.run([BUILD / "pdl-sim", "--completion", "fish"], capture_output=True, encoding="utf-8")
        self.assertEqual((2, "", "pdl-sim: --completion: found fish, expected bash or zsh\n"),
                         (done.returncode, done.stdout, done.stderr))


class ManualPages(unittest.TestCase):
    def test_groff_formats_them_without_a_warning(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for program in programs():
            page = text_of(program, "--man-page")
            done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-rLL=100n"], input=page, capture_output=True, encoding="utf-8")
            self.assertEqual((0, ""), (done.returncode, done.stderr), program.name)
            self.assertIn(program.name, done.stdout)

    def test_every_flag_and_subcommand_is_in_it(self):
        for program in programs():
            page = text_of(program, "--man-page").replace("\\-", "-")
            for line in text_of(program, "--help").splitlines():
                words = line.split()
                if line.startswith("  -") and words:
                    self.assertIn(words[0].split(",")[-1], page)
        self.assertIn('.SS "pdl\\-sim sweep"', text_of(BUILD / "pdl-sim", "--man-page"))

    def test_the_page_that_is_installed_is_what_the_program_says(self):
        for program in programs():
            for flag, path in ((("--man-page",), f"man/man1/{program.name}.1"),
                               (("--completion", "bash"), f"bash-completion/completions/{program.name}"),
                               (("--completion", "zsh"), f"zsh/site-functions/_{program.name}")):
                self.assertEqual(text_of(program, *flag), (BUILD / "share" / path).read_text(encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda path: pathlib.Path(path).resolve())
    arguments, rest = parser.parse_known_args()
    BUILD = arguments.build
    unittest.main(argv=["program_texts.py", *rest])
