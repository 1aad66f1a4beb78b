#!/usr/bin/env python3
"""An installation that was moved answers from its own files.

    tests/install_test.py --cmake cmake --build build/sim

Installs the build into a temporary folder, moves it to a path with spaces, and gives it data and scenarios that no other
folder has: an answer that shows them came from there. What LibTorch computes is not tested here, only that it is found.
"""

import argparse
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ARGUMENTS = None
# What would lead a program, or cmake, to other files.
FORGOTTEN = ("PDL_DATA", "DESTDIR", "LD_LIBRARY_PATH", "COLUMNS")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in FORGOTTEN}


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name).resolve()
        subprocess.run([ARGUMENTS.cmake, "--install", ARGUMENTS.build, "--prefix", cls.folder / "first place"],
                       check=True, capture_output=True, env=ENVIRONMENT)
        cls.installed = cls.folder / "moved here" / "pdl"
        cls.installed.parent.mkdir()
        (cls.folder / "first place").rename(cls.installed)
        cls.share = cls.installed / "share" / "pdl"
        cls.elsewhere = cls.folder / "elsewhere"
        cls.elsewhere.mkdir()

    def run_program(self, program, *words, **environment):
        return subprocess.run([program, *words], cwd=self.elsewhere, env={**ENVIRONMENT, **environment}, text=True,
                              capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=60)

    def said(self, program, *words, **environment):
        done = self.run_program(program, *words, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def profiles(self, program, **environment):
        """The names that `pdl-sim profiles` lists, below two lines of heading, until the table ends."""
        lines = self.said(program, "profiles", **environment).splitlines()[2:]
        return [line.split()[0] for line in itertools.takewhile(str.strip, lines)]

    def test_all_that_belongs_there_and_nothing_else(self):
        files = [path.relative_to(self.installed) for path in self.installed.rglob("*") if path.is_file()]
        self.assertEqual({path.parts[0] for path in files}, {"bin", "share", "include", "lib"})
        self.assertEqual({str(path) for path in files if path.parts[0] in ("include", "lib")},
                         {"include/pdl/pdl.hpp", "include/pdl/sim/io/error.hpp", "lib/libpdl.a",
                          *(f"lib/cmake/pdl/pdl{name}.cmake" for name in
                            ("Config", "ConfigVersion", "Targets", "Targets-release"))})
        for wanted in ("bin/pdl-sim", "share/pdl/data/h100x4/profile.json", "share/pdl/scenarios/hw3_4_more_gpus.json",
                       "share/doc/pdl/README.md",
                       "share/man/man1/pdl-sim.1", "share/bash-completion/completions/pdl-sim",
                       "share/zsh/site-functions/_pdl-sim", "share/doc/pdl/LICENSE", "share/doc/pdl/docs/design.md",
                       "share/doc/pdl/docs/page_run.png", "share/doc/pdl/echarts.txt",
                       "share/pdl/scenarios/python/hw1_2_strong_scaling.py", "share/pdl/scenarios/python/course_model.py",
                       "share/pdl/runtime/pytorch/train.py"):
            self.assertIn(pathlib.Path(wanted), files)
        for program in (path.name for path in files if path.parts[0] == "bin"):
            self.assertIn(pathlib.Path(f"share/man/man1/{program}.1"), files)
            self.assertIn(pathlib.Path(f"share/bash-completion/completions/{program}"), files)
        for path in files:
            self.assertNotIn("test", str(path).lower())
        self.assertLessEqual({path.name for path in files if path.parts[0] == "bin"}, {"pdl-sim", "pdl-run", "pdl-calibrate"})

    def test_every_program_starts_and_says_its_version(self):
        programs = sorted((self.installed / "bin").iterdir())
        versions = set()
        for program in programs:
            name, version = self.said(program, "--version").split()
            self.assertEqual(name, program.name)
            versions.add(version)
        self.assertEqual(len(versions), 1)
        self.assertRegex(versions.pop(), r"^[0-9]+(\.[0-9]+)+$")

    def test_the_main_example_is_the_one_of_the_build(self):
        words = ("--gpus", "5", "--depth", "20", "--schedule", "gpipe")
        here = self.said(self.installed / "bin" / "pdl-sim", *words)
        self.assertIn("costs: profile ", here)
        self.assertEqual(here, self.said(os.path.abspath(os.path.join(ARGUMENTS.build, "pdl-sim")), *words))

    def test_a_project_that_finds_the_library_predicts_the_main_example(self):
        build = self.folder / "a build"
        here = pathlib.Path(__file__).resolve().parent / "install_project"
        for words in (["-S", here, "-B", build, f"-DCMAKE_PREFIX_PATH={self.installed}", "-DCMAKE_BUILD_TYPE=Release"],
                      ["--build", build]):
            done = subprocess.run([ARGUMENTS.cmake, *words], env=ENVIRONMENT, text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        words = ("--gpus", "5", "--depth", "20", "--schedule", "gpipe", "--json", "-")
        said = self.said(build / "finds_pdl")
        self.assertEqual(said, self.said(self.installed / "bin" / "pdl-sim", *words))
        # From the files of this installation, and no others.
        data = self.share / "data"
        self.addCleanup((self.folder / "away").rename, data)
        data.rename(self.folder / "away")
        shutil.copytree(self.folder / "away" / "h200x2", data / "h200x2", ignore=shutil.ignore_patterns("runs*"))
        self.addCleanup(shutil.rmtree, data)
        self.assertIn('"name":"h200x2"', self.said(build / "finds_pdl"))

    def test_the_library_names_no_other_library_and_no_place(self):
        for path in (self.installed / "include").rglob("*.hpp"):
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("#include"):
                    self.assertRegex(line, r'^#include (<[a-z_]+>|"sim/io/error.hpp")$')
        for path in (self.installed / "lib" / "cmake").rglob("*.cmake"):
            text = path.read_text(encoding="utf-8")
            self.assertNotRegex(text, r"(?i)boost|eigen|nlohmann|cli11", path)
            self.assertNotIn(str(pathlib.Path(__file__).resolve().parent.parent), text, path)
            self.assertNotIn("first place", text, path)

    def test_profiles_and_scenarios_are_those_of_the_installation(self):
        place = self.folder / "changed"
        shutil.copytree(self.installed, place)
        data, scenarios = place / "share/pdl/data", place / "share/pdl/scenarios"
        text = json.loads((scenarios / "hw3_4_more_gpus.json").read_text(encoding="utf-8"))
        for folder in (data, scenarios):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and path.name != "h100x4" else path.is_file() and path.unlink()
        (data / "h100x4").rename(data / "only-here")
        (scenarios / "mine.json").write_text(json.dumps({**text, "title": "A title of this test"}), encoding="utf-8")

        link = self.folder / "a link"
        link.symlink_to(place / "bin" / "pdl-sim")
        for program in (place / "bin" / "pdl-sim", link):
            self.assertEqual(self.profiles(program), ["only-here"])
            self.assertIn("A title of this test", self.said(program, "scenario", "--all"))

    def test_scenarios_of_the_folder_where_it_is_run_are_not_taken_unless_named(self):
        program, here = self.installed / "bin" / "pdl-sim", self.elsewhere / "scenarios"
        here.mkdir()
        self.addCleanup(shutil.rmtree, here)
        text = json.loads((self.share / "scenarios" / "hw3_4_more_gpus.json").read_text(encoding="utf-8"))
        (here / "mine.json").write_text(json.dumps({**text, "title": "A title of this test"}), encoding="utf-8")
        said = self.said(program, "scenario", "--all")
        self.assertNotIn("A title of this test", said)
        self.assertIn(text["title"], said)
        self.assertIn("A title of this test", self.said(program, "scenario", "scenarios/mine.json"))

    def test_a_profile_of_the_user_goes_before_a_bundled_one_of_its_name(self):
        program, mine = self.installed / "bin" / "pdl-sim", self.folder / "mine"
        bundled = sorted(path.name for path in (self.share / "data").iterdir())
        for name in (bundled[0], "zz-mine"):
            shutil.copytree(self.share / "data" / bundled[1], mine / name, ignore=shutil.ignore_patterns("runs*"))
        self.assertEqual(self.profiles(program), bundled)
        self.assertEqual(self.profiles(program, PDL_DATA=str(mine)), sorted([*bundled, "zz-mine"]))
        cards = [self.said(program, "--profile", bundled[0], "--depth", "4", "--gpus", "1", **environment).split("(")[1]
                 for environment in ({}, {"PDL_DATA": str(mine)})]
        self.assertNotEqual(*cards)


def main():
    global ARGUMENTS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--build", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[__file__, *rest])


if __name__ == "__main__":
    main()
