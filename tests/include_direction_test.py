#!/usr/bin/env python3
"""tests/include_direction.py on small trees, each with the exact complaints it must make."""
import tempfile
import unittest
from pathlib import Path

from include_direction import check


def problems_of(files):
    """{path: text} -> the complaints about a tree of these files"""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        return check(Path(folder).resolve())[1]


class Arrows(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual([], problems_of({
            "sim/spec/a.hpp": "#include <vector>\n",
            "sim/plan/b.cpp": '#include "sim/spec/a.hpp"\n',
            "runtime/tool/c.cpp": '#include "sim/plan/b.cpp"\n#include <torch/torch.h>\n',
            "runtime/measure/d.hpp": "",
            "runtime/model/e.cpp": '#include "runtime/measure/d.hpp"\n',
        }))

    def test_against_the_arrow(self):
        self.assertEqual(
            ['sim/spec/a.hpp:2: includes "sim/plan/b.hpp", but sim/spec may include only itself and nothing'],
            problems_of({"sim/plan/b.hpp": "", "sim/spec/a.hpp": '\n#include "sim/plan/b.hpp"\n'}))

    def test_sim_knows_no_runtime(self):
        self.assertEqual(
            ['sim/cost/a.cpp:1: includes "runtime/comm/b.hpp", but sim/cost may include only itself and '
             'sim/plan, sim/spec'],
            problems_of({"runtime/comm/b.hpp": "", "sim/cost/a.cpp": '#include "runtime/comm/b.hpp"\n'}))

    def test_report_is_for_the_tool_of_the_runtime_only(self):
        files = {"sim/report/r.hpp": "", "runtime/comm/a.cpp": '#include "sim/report/r.hpp"\n',
                 "runtime/tool/b.cpp": '#include "sim/report/r.hpp"\n'}
        self.assertEqual(
            ['runtime/comm/a.cpp:1: includes "sim/report/r.hpp", but runtime may include only itself and '
             'sim/spec, sim/plan, sim/timeline'], problems_of(files))

    def test_fit_without_torch(self):
        self.assertEqual(
            ['calibrate/fit/a.cpp:1: includes <ATen/ATen.h>, but calibrate/fit is built without Torch and CUDA'],
            problems_of({"calibrate/fit/a.cpp": "#include <ATen/ATen.h>\n"}))

    def test_path_from_the_root(self):
        self.assertEqual(['sim/plan/a.cpp:1: includes "b.hpp", which is no file seen from the project root'],
                         problems_of({"sim/plan/a.cpp": '#include "b.hpp"\n', "sim/plan/b.hpp": ""}))

    def test_folder_name(self):
        self.assertEqual(["runtime/utils: a folder is named for what it holds, not 'utils'"],
                         problems_of({"runtime/utils/a.hpp": ""}))

    def test_unknown_room(self):
        self.assertEqual(["sim/extra/a.cpp:1: is in no room that tests/include_direction.py knows"],
                         problems_of({"sim/extra/a.cpp": ""}))


if __name__ == "__main__":
    unittest.main()
