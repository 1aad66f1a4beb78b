#!/usr/bin/env python3
"""tests/include_direction.py on small trees, each with the exact complaints it must make.

The rooms are written here once more, in the order that they must have: for each room an include of every room behind it
is planted, and every one of them must be found, whatever ALLOWED says.
"""
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import include_direction

SIM = "io model spec plan timeline cost engine memory run predict study course report library tool".split()
RUNTIME = "device comm model trace executor program measure pytorch tool".split()
CALIBRATE = "fit probe tool".split()
ROOMS = [f"sim/{r}" for r in SIM] + [f"runtime/{r}" for r in RUNTIME] + [f"calibrate/{r}" for r in CALIBRATE]
PROGRAMS = ["sim/tool", "runtime/tool", "calibrate/tool"]

# Rooms that are before a room, and that it must not know all the same.
UNKNOWN = {room: [] for room in ROOMS}
UNKNOWN["sim/cost"] += ["sim/timeline"]  # when something runs
UNKNOWN["sim/memory"] += ["sim/cost", "sim/engine"]  # what is allocated does not depend on times
UNKNOWN["sim/course"] += ["sim/cost", "sim/engine"]  # speaks of rows, predicts none
UNKNOWN["sim/report"] += ["sim/cost", "sim/engine"]  # draws rows
for name in ("device", "comm", "model", "trace", "executor", "program"):  # execute a plan, whatever it is said to cost
    UNKNOWN[f"runtime/{name}"] += [f"sim/{r}" for r in SIM if r not in ("io", "model", "spec", "plan", "timeline")]
UNKNOWN["runtime/measure"] += ["sim/cost", "sim/engine", "sim/study", "sim/course"]
UNKNOWN["calibrate/fit"] += [f"runtime/{r}" for r in RUNTIME]  # fits without Torch
for name in ROOMS:  # views are for programs
    if name not in PROGRAMS and name != "sim/report":
        UNKNOWN[name] += ["sim/report"]


def problems_of(files):
    """{path: text} -> the complaints about a tree of these files"""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        return include_direction.check(Path(folder).resolve())[1]


def forbidden_pairs():
    """Every room, with every room behind it and every one that it must not know."""
    for at, room in enumerate(ROOMS):
        for target in dict.fromkeys(ROOMS[at + 1:] + UNKNOWN[room]):
            yield room, target


class EveryForbiddenPair(unittest.TestCase):
    def planted(self, source, header):
        """A tree with a header in every room, and in every room a file that includes the forbidden ones line by line
        -> (the lines that must be complained of, those that are)"""
        files = {header(room): "#include <vector>\n" for room in ROOMS}
        lines, expected = {}, set()
        for room, target in forbidden_pairs():
            lines.setdefault(source(room), []).append(f'#include "{header(target)}"\n')
            expected.add(f"{source(room)}:{len(lines[source(room)])}")
        found = problems_of(files | {path: "".join(text) for path, text in lines.items()})
        return expected, {each.split(": ")[0] for each in found if " may include only itself and " in each}

    def test_each_is_found(self):
        pairs = list(forbidden_pairs())
        # 14 + 8 + 3 rooms: 300 pairs of a room and one behind it, and those that must not be known.
        self.assertGreater(len(pairs), 25 * 24 // 2)
        for pair in [("sim/engine", "sim/run"), ("sim/cost", "sim/engine"), ("sim/course", "sim/report"),
                     ("sim/memory", "sim/cost"), ("sim/plan", "runtime/comm"), ("runtime/comm", "calibrate/fit"),
                     ("runtime/comm", "runtime/measure"), ("runtime/trace", "runtime/program"),
                     ("runtime/measure", "sim/report"), ("runtime/model", "sim/cost"),
                     ("calibrate/fit", "runtime/model")]:
            self.assertEqual(1, pairs.count(pair), pair)
        expected, found = self.planted(lambda room: f"{room}/a.cpp", lambda room: f"{room}/b.hpp")
        self.assertEqual(expected, found)

    def test_each_is_found_in_headers_and_folders_of_a_room(self):
        expected, found = self.planted(lambda room: f"{room}/inner/a.hpp", lambda room: f"{room}/inner/b.hpp")
        self.assertEqual(expected, found)

    def test_what_is_allowed_is_not_found(self):
        files = {}
        for room, allowed in include_direction.ALLOWED.items():
            targets = [entry if entry.endswith(".hpp") else f"{entry}/b.hpp" for entry in allowed.split()
                       if "/" in entry]
            files |= {target: "" for target in targets}
            files[f"{room}/a.cpp"] = "".join(f'#include "{target}"\n' for target in targets)
        found = [problem for problem in problems_of(files) if "may include only" in problem]
        self.assertEqual([], found)


class Table(unittest.TestCase):
    def problems(self, **lines):
        lines = {room.replace("__", "/"): allowed for room, allowed in lines.items()}
        with mock.patch.dict(include_direction.ALLOWED, lines):
            return list(include_direction.problems_of_table())

    def test_holds(self):
        self.assertEqual([], self.problems())
        self.assertEqual(ROOMS, [f"{tree}/{room}" for tree, rooms in include_direction.ORDER.items() for room in rooms])

    def test_a_line_against_the_order(self):
        self.assertEqual(["tests/include_direction.py: sim/plan may not include sim/cost, which is not before it in "
                          "ORDER"], self.problems(sim__plan="sim/io sim/cost"))
        self.assertEqual(["tests/include_direction.py: sim/run may not include runtime/comm/waiting.hpp, which is not "
                          "before it in ORDER"], self.problems(sim__run="runtime/comm/waiting.hpp"))

    def test_a_line_for_no_room(self):
        self.assertEqual(["tests/include_direction.py: sim/search is not in ORDER"], self.problems(sim__search=""))

    def test_what_nothing_needs(self):
        needed = {(room, entry) for room, allowed in include_direction.ALLOWED.items() for entry in allowed.split()}
        self.assertEqual([], list(include_direction.needless(needed)))
        self.assertEqual(["tests/include_direction.py: sim/timeline may include sim/plan, and no file of it does"],
                         list(include_direction.needless(needed - {("sim/timeline", "sim/plan")})))


class Lines(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual([], problems_of({
            "sim/spec/a.hpp": "#include <vector>\n",
            "sim/plan/b.cpp": '#include "sim/spec/a.hpp"\n',
            "sim/tool/flags.hpp": "#include <CLI/CLI.hpp>\n",
            "runtime/torch_precompiled.hpp": "#include <torch/torch.h>\n",
            "runtime/tool/c.cpp": '#include "sim/tool/flags.hpp"\n#include <torch/torch.h>\n',
            "tests/sim/plan/b_test.cpp": '#include "sim/plan/b.cpp"\n#include "tests/support/c.hpp"\n',
            "tests/support/c.hpp": "",
        }))

    def test_the_complaint(self):
        self.assertEqual(
            ['sim/model/a.hpp:2: includes "sim/plan/b.hpp", but sim/model may include only itself and sim/io'],
            problems_of({"sim/plan/b.hpp": "", "sim/model/a.hpp": '\n#include "sim/plan/b.hpp"\n'}))

    def test_a_file_is_not_its_room(self):
        self.assertEqual(
            ['runtime/tool/a.cpp:1: includes "sim/tool/commands.hpp", but runtime/tool may include only itself and '
             + include_direction.ALLOWED["runtime/tool"]],
            problems_of({"sim/tool/commands.hpp": "", "runtime/tool/a.cpp": '#include "sim/tool/commands.hpp"\n'}))

    def test_without_torch(self):
        for room in ("sim/plan", "calibrate/fit"):
            self.assertEqual(
                [f"{room}/a.cpp:1: includes <ATen/ATen.h>, but {room} is built without Torch and CUDA"],
                problems_of({f"{room}/a.cpp": "#include <ATen/ATen.h>\n"}))

    def test_command_lines_are_read_by_programs(self):
        for room in ROOMS:
            found = problems_of({f"{room}/a.hpp": "#include <CLI/CLI.hpp>\n"})
            expected = [f"{room}/a.hpp:1: includes <CLI/CLI.hpp>, but only {', '.join(PROGRAMS)}, tests/fuzz "
                        "read command lines"]
            self.assertEqual([] if room in PROGRAMS else expected, found)

    def test_path_from_the_root(self):
        self.assertEqual(['sim/plan/a.cpp:1: includes "b.hpp", which is no file seen from the project root'],
                         problems_of({"sim/plan/a.cpp": '#include "b.hpp"\n', "sim/plan/b.hpp": ""}))


class Folders(unittest.TestCase):
    def test_name(self):
        self.assertIn("runtime/utils: a folder is named for what it holds, not 'utils'",
                      problems_of({"runtime/utils/a.hpp": ""}))

    def test_unknown_room(self):
        self.assertEqual(["sim/extra/a.cpp:1: is in no room that tests/include_direction.py knows"],
                         problems_of({"sim/extra/a.cpp": ""}))
        self.assertEqual(["sim/a.cpp:1: is in no room that tests/include_direction.py knows"],
                         problems_of({"sim/a.cpp": ""}))

    def test_tests_mirror_the_sources(self):
        self.assertEqual([], problems_of({"sim/spec/schedules/a.cpp": "", "tests/sim/spec/schedules/a_test.cpp": ""}))
        self.assertEqual([], problems_of({"sim/spec/a.hpp": "", "tests/sim/spec/a_test.cpp": ""}))
        self.assertEqual(["tests/sim/spec/schedules: tests mirror the sources, and there is no folder "
                          "sim/spec/schedules"],
                         problems_of({"sim/spec/a.cpp": "", "tests/sim/spec/schedules/a_test.cpp": "// About a.\n"}))
        self.assertEqual(["tests/data_parallel: tests mirror the sources, and there is no folder data_parallel",
                          "tests/data_parallel/a_test.cpp:1: is in no room that tests/include_direction.py knows"],
                         problems_of({"tests/data_parallel/a_test.cpp": "// About a.\n"}))

    def test_a_test_says_what_it_tests(self):
        self.assertEqual(["tests/sim/spec/b_test.cpp:1: there is no sim/spec/b.cpp, and the first line does not say "
                          "what is tested"],
                         problems_of({"sim/spec/a.cpp": "", "tests/sim/spec/b_test.cpp": "\n"}))


if __name__ == "__main__":
    unittest.main()
