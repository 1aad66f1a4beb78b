#!/usr/bin/env python3
"""tests/gpu/matrix: what it draws, its table on runs with known errors, and with --pdl-run all of it on CPU workers.

  tests/gpu/matrix_test.py --programs build/sim                      draws, predicts and compares; needs no LibTorch
  tests/gpu/matrix_test.py --programs build/all --cpu FOLDER         measures a tiny plan of each family too
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = CPU_FOLDER = None

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("matrix", os.path.join(HERE, "matrix"))
matrix = importlib.util.module_from_spec(importlib.util.spec_from_loader("matrix", loader))
loader.exec_module(matrix)


def accept_all(words, layers):
    return {"model": "file" if layers else "mlp", "words": words}


class Drawing(unittest.TestCase):
    def test_the_same_seed_draws_the_same_plans(self):
        for gpus in (1, 2):
            first = matrix.draw_plans(accept_all, gpus, 14)
            self.assertEqual(first, matrix.draw_plans(accept_all, gpus, 14))
            other = matrix.draw_plans(accept_all, gpus, 15)
            self.assertEqual(len(first), len(other))
            self.assertLess(sum(a["words"] == b["words"] for a, b in zip(first, other)), 10)

    def test_plans_of_seed_14(self):
        one = {plan["name"]: plan["words"] for plan in matrix.draw_plans(accept_all, 1, 14)}
        self.assertEqual(one["pipeline fp32, probed 1"],
                         "--gpus 1 --strategy single --workers thread --depth 6 --dim 8192 --batch 512")
        self.assertEqual(one["pipeline fp32, not probed 1"],
                         "--gpus 1 --strategy single --workers thread --depth 8 --dim 9408 --batch 46")
        self.assertEqual(one["model of a file, not probed 1"],
                         "--model scenarios/models/matrix14-1-1.json --gpus 1 --strategy single --workers thread "
                         "--dtype tf32 --batch 2543")

    def test_half_of_at_least_140_plans_are_not_probed(self):
        for gpus in (1, 2):
            plans = matrix.draw_plans(accept_all, gpus, 14)
            self.assertGreaterEqual(len(plans), 140)
            self.assertEqual(2 * sum(plan["probed_shapes"] for plan in plans), len(plans))
            self.assertEqual(sum(plan["host_bound_on_purpose"] for plan in plans), 12)
            self.assertEqual(len({plan["words"] for plan in plans}), len(plans))

    def test_shapes_that_are_probed_and_shapes_that_are_not(self):
        other_widths = set()
        for gpus in (1, 2):
            for plan in matrix.draw_plans(accept_all, gpus, 14):
                words = plan["words"].split()
                words = dict(zip((word[2:] for word in words[::2]), words[1::2]))
                if "dim" not in words:
                    continue
                width = int(words["dim"])
                parts = int(words.get("microbatches", 1)) * (gpus if words["strategy"] in ("ddp", "dp") else 1)
                if plan["probed_shapes"]:
                    fp32 = words.get("dtype", "fp32") == "fp32"
                    self.assertIn(width, (1024, 2048, 4096, 8192) if fp32 else (1024, 4096, 8192))
                    self.assertIn(int(words["batch"]) / parts, (32, 64, 128, 256, 512, 1024, 2048, 4096))
                else:
                    self.assertEqual((width % 64, 512 <= width <= 12288), (0, True))
                    other_widths.add(width)
        self.assertGreater(len(other_widths), 80)

    def test_every_program_and_setting_is_drawn_in_both_halves(self):
        both = ("--dtype tf32", "--dtype amp-bf16", "--dtype amp-fp16", "--accum", "--microbatches", "--optimizer adam",
                "--recompute 1", "--workers one", "--strategy ddp")
        wanted = {1: (*both, "--workers thread"),
                  2: (*both, "--strategy mp", "--strategy dp ", "--schedule 1f1b", "--schedule gpipe", "--no-sync 1",
                      "--transport nccl")}
        for gpus, texts in wanted.items():
            plans = matrix.draw_plans(accept_all, gpus, 14)
            for text in texts:
                halves = {plan["probed_shapes"] for plan in plans if text in plan["words"]}
                self.assertEqual(halves, {True, False}, f"{gpus} GPUs: {text}")
            self.assertTrue(any("--model " in plan["words"] for plan in plans))

    def test_plans_of_pytorch_are_of_its_program_and_of_few_numbers_of_steps(self):
        plans = matrix.draw_plans(accept_all, 2, 20, by="pytorch")
        self.assertEqual(plans, matrix.draw_plans(accept_all, 2, 20, by="pytorch"))
        self.assertTrue(all("--program pytorch" in plan["words"] for plan in plans))
        self.assertGreaterEqual(len(plans), 120)
        self.assertGreaterEqual(3 * sum(not plan["probed_shapes"] for plan in plans), len(plans))
        for plan in plans:
            plan["config"]["program"] = "pytorch"
        self.assertLessEqual(len({matrix.steps_of(plan) for plan in plans}), 2)

    def test_models_of_several_kinds_of_layers(self):
        forms = []

        def accept(words, layers):
            forms.extend(form for _, _, form in layers)
            return accept_all(words, layers)

        plans = matrix.draw_plans(accept, 1, 22, by="kinds")
        self.assertEqual(len(plans), 24)
        self.assertEqual(set(forms), set(matrix.FORMS))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.json")
            matrix.write_model(path, [(8, 16, "layer_norm linear gelu"), (16, 8, "linear")])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["layers"],
                                 [{"kind": "layer_norm", "features": 8}, {"kind": "linear", "in": 8, "out": 16},
                                  {"kind": "gelu", "features": 16}, {"kind": "linear", "in": 16, "out": 8}])

    def test_what_is_refused_is_drawn_again(self):
        refused = []

        def accept(words, layers):
            if "--depth 6" in words:
                refused.append(words)
                return None
            return accept_all(words, layers)

        plans = matrix.draw_plans(accept, 1, 14)
        self.assertEqual(len(plans), len(matrix.draw_plans(accept_all, 1, 14)))
        self.assertGreater(len(refused), 5)
        self.assertFalse([plan for plan in plans if "--depth 6" in plan["words"]])

    def test_predicted_from_a_profile_the_plans_are_as_long_and_large_as_they_are_meant_to_be(self):
        for gpus in (1, 2):
            predictions, layers_of = {}, {}

            def accept(words, layers):
                if layers:
                    layers_of[words.split()[1]] = layers
                said = matrix.said_json(os.path.join(PROGRAMS, "pdl-sim"), f"{words} --profile h200x2")
                predictions[words] = said
                return said and said["config"]

            plans = matrix.draw_plans(accept, gpus, 14)
            unlike = []
            for plan in plans:
                said = predictions[plan["words"]]
                step_ms = said["step_time_ms"]["median"]
                self.assertLess(step_ms, 150, plan["words"])
                self.assertLess(max(gpu["peak_memory_bytes"] for gpu in said["gpus"]), 60e9, plan["words"])
                host_bound = any(warning.startswith("bound by the host") for warning in said["warnings"])
                if host_bound != plan["host_bound_on_purpose"] or (step_ms < 3 and not host_bound):
                    unlike.append(plan["words"])
            self.assertLess(len(unlike), 8, unlike)
            self.assertGreater(len(layers_of), 3)
            for path, layers in layers_of.items():  # the committed files are those of this seed
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    found = [(layer["in"], layer["out"], layer["kind"]) for layer in json.load(file)["layers"]]
                    self.assertEqual(found, layers, path)


class Steps(unittest.TestCase):
    def test_at_least_20_steps_or_half_a_second(self):
        shortest_ms = 0
        for longest_ms, warmup, steps in matrix.STEPS:
            self.assertTrue(steps >= 20 or steps * shortest_ms >= 500, longest_ms)
            self.assertGreaterEqual(warmup, 3)
            shortest_ms = longest_ms

    def test_processes_measure_plans_of_equal_steps_the_shortest_first(self):
        plans = [{"name": name, "estimate_ms": ms, "config": {"dtype": "fp32"}}
                 for name, ms in (("a", 50.0), ("b", 2.0), ("c", 60.0), ("d", 20.0))]
        groups = [[plan["name"] for plan in group] for group in matrix.groups_of(plans)]
        self.assertEqual(groups, [["b"], ["d"], ["a", "c"]])

    def test_tensor_cores_work_until_their_clock_has_fallen(self):
        for estimate_ms in (2.0, 3.5, 7.0, 20.0, 26.0, 40.0, 70.0):
            warmup, _ = matrix.steps_of({"estimate_ms": estimate_ms, "config": {"dtype": "tf32"}})
            self.assertGreaterEqual(warmup * max(estimate_ms, 3), matrix.CLOCK_FALLS_WITHIN_MS, estimate_ms)


def config_of(dim, dtype="fp32"):
    return {"model": "mlp", "depth": 4, "dim": dim, "batch": 8, "microbatches": 1, "gpus": 1, "strategy": "single",
            "dtype": dtype, "optimizer": "sgd", "transport": "copy", "p2p": "eager", "workers": "thread"}


class Table(unittest.TestCase):
    """                 measured    predicted   error     bar (ms)    inside
    a  fp32, probed     10.0        10.1        +1 %      0.2         yes
    b  fp32, probed     20.0        19.4        -3 %      0.5         no
    c  tf32, not        40.0        44.0        +10 %     5.0         yes
    d  host-bound       1.0         0.5         -50 %     0.5         yes
    e  tf32, not        not measured
    """

    PREDICTIONS = [("a", 1024, "fp32", 10.1, 0.2, True, False), ("b", 2048, "fp32", 19.4, 0.5, True, False),
                   ("c", 1536, "tf32", 44.0, 5.0, False, False), ("d", 512, "fp32", 0.5, 0.5, False, True),
                   ("e", 640, "tf32", 7.0, 1.0, False, False)]
    MEASURED = {1024: 10.0, 2048: 20.0, 1536: 40.0, 512: 1.0}

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        predictions = [{"name": name, "config": config_of(dim, dtype), "step_time_ms": ms,
                        "half_width_90_ms": half_width, "probed": probed, "host_bound": host_bound}
                       for name, dim, dtype, ms, half_width, probed, host_bound in self.PREDICTIONS]
        self.predictions = os.path.join(self.folder.name, "predictions.json")
        matrix.write_lines(self.predictions, {"profile": "p"}, "predictions", predictions)
        self.runs = os.path.join(self.folder.name, "runs")
        for dim, ms in self.MEASURED.items():
            dtype = next(prediction[2] for prediction in self.PREDICTIONS if prediction[1] == dim)
            run = {"config": config_of(dim, dtype), "measured": True,
                   "step_time_ms": {"median": ms, "p25": ms - 0.125, "p75": ms + 0.25, "n": 20}}
            matrix.write(os.path.join(self.runs, f"run{dim}.json"), json.dumps(run))

    def table(self, *more):
        words = [sys.executable, os.path.join(HERE, "matrix"), "table", "--runs", self.runs, "--predictions",
                 self.predictions, *more]
        return subprocess.run(words, capture_output=True, encoding="utf-8")

    def test_rows_worst_first_and_their_summary(self):
        done = self.table()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[2:6], [
            "| d, host-bound: run512 | 1.000 | 0.875 | 1.250 | 0.500 | -50.00 | 100.00 | yes |",
            "| c: run1536 | 40.000 | 39.875 | 40.250 | 44.000 | +10.00 | 11.36 | yes |",
            "| b: run2048 | 20.000 | 19.875 | 20.250 | 19.400 | -3.00 | 2.58 | no |",
            "| a: run1024 | 10.000 | 9.875 | 10.250 | 10.100 | +1.00 | 1.98 | yes |"])
        self.assertEqual(lines[9:15], [
            "| probed, fp32 | 2 | 2.00 | 2.00 | 3.00 | 50 | 2.28 |",
            "| probed, tensor cores | 0 | - | - | - | - | - |",
            "| not probed, fp32 | 0 | - | - | - | - | - |",
            "| not probed, tensor cores | 1 | 10.00 | 10.00 | 10.00 | 100 | 11.36 |",
            "| all of them, GPU-bound | 3 | 4.67 | 3.00 | 10.00 | 67 | 2.58 |",
            "| host-bound | 1 | 50.00 | 50.00 | 50.00 | 100 | 100.00 |"])
        self.assertIn("4 of 5 plans are measured", done.stdout)

    def test_predictions_without_error_bars(self):
        content = matrix.read(self.predictions, "predictions")
        for prediction in content["predictions"]:
            prediction["half_width_90_ms"] = None
        matrix.write(self.predictions, json.dumps(content))
        lines = self.table().stdout.splitlines()
        self.assertEqual(lines[2], "| d, host-bound: run512 | 1.000 | 0.875 | 1.250 | 0.500 | -50.00 | - | - |")
        self.assertEqual(lines[9], "| probed, fp32 | 2 | 2.00 | 2.00 | 3.00 | - | - |")

    def test_what_is_wrong_is_said(self):
        for dim in self.MEASURED:
            os.remove(os.path.join(self.runs, f"run{dim}.json"))
        done = self.table()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("found no run of a plan in", done.stderr)
        with open(self.predictions, "w", encoding="utf-8") as file:
            file.write("{")
        done = self.table()
        self.assertEqual(done.returncode, 2)
        self.assertIn("predictions.json: found no JSON that can be read", done.stderr)


class Profiles(unittest.TestCase):
    def test_a_profile_that_is_not_there_is_said_once(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "plans.json")
            words = [sys.executable, os.path.join(HERE, "matrix"), "plans", "--gpus", "1", "--profile", "no-such",
                     "--out", out, "--programs", PROGRAMS]
            done = subprocess.run(words, capture_output=True, encoding="utf-8")
            self.assertEqual((done.returncode, done.stdout, os.path.exists(out)), (2, "", False))
            self.assertIn('matrix: --profile: found "no-such", expected ', done.stderr)


class OnCpu(unittest.TestCase):
    """plans, predict, run, table, as on a host with GPUs, with a profile of others: the errors mean nothing."""

    def said(self, *words, code=0):
        words = [sys.executable, os.path.join(HERE, "matrix"), *words]
        done = subprocess.run(words, capture_output=True, encoding="utf-8")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")  # no progress: this is no terminal
        return done.stdout

    def run_plans(self, *more, code=0):
        files = ["--plans", self.file("plans.json"), "--out", self.file("runs"), "--programs", PROGRAMS]
        return self.said("run", *files, "--device", "cpu", "--steps", "2", "--warmup", "1", *more, code=code)

    def written(self):
        """Of each file of a run: when."""
        return {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(self.file("runs"))}

    def file(self, name):
        return os.path.join(CPU_FOLDER, name)

    def test_all_of_it(self):
        if not CPU_FOLDER:
            self.skipTest("without --cpu")
        for name in os.listdir(self.file("runs")) if os.path.isdir(self.file("runs")) else []:
            os.remove(os.path.join(self.file("runs"), name))
        said = self.said("plans", "--gpus", "1", "--tiny", "--out", self.file("plans.json"), "--models",
                         self.file("models"), "--programs", PROGRAMS)
        plans = int(re.search(r"(\d+) plans", said).group(1))
        self.said("predict", "--plans", self.file("plans.json"), "--profile", "h200x2", "--out",
                  self.file("predictions.json"), "--programs", PROGRAMS)
        self.assertIn("; --limit-s 0.1 ended it", self.run_plans("--limit-s", "0.1", code=3))
        self.assertEqual(os.listdir(self.file("runs")), [])
        self.assertIn("2 of 2 plans are measured", self.run_plans("--only", "recompute", "--together", "1"))
        kept = self.written()
        self.assertEqual(len(kept), 2)
        self.assertIn(f"{plans} of {plans} plans are measured", self.run_plans())
        self.assertEqual(len(self.written()), plans)
        self.assertEqual(kept, {name: written_ns for name, written_ns in self.written().items() if name in kept})
        table = self.said("table", "--runs", self.file("runs"), "--predictions", self.file("predictions.json"))
        self.assertIn(f"{plans} of {plans} plans are measured", table)

    def test_a_plan_that_cannot_run_is_listed_and_the_others_are_measured(self):
        if not CPU_FOLDER:
            self.skipTest("without --cpu")
        plans = [{"name": name, "estimate_ms": 1.0, "config": config_of(64, dtype), "probed_shapes": True,
                  "words": f"--gpus 1 --strategy single --workers thread --depth 4 --dim 64 --batch 8 --dtype {dtype}"}
                 for name, dtype in (("tf32", "tf32"), ("fp32", "fp32"))]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plans.json")
            matrix.write_lines(path, {"seed": 0, "gpus": 1}, "plans", plans)
            said = self.said("run", "--plans", path, "--out", os.path.join(folder, "runs"), "--programs", PROGRAMS,
                             "--device", "cpu", "--steps", "2", "--warmup", "1", code=1)
            self.assertIn("1 of 2 plans are measured", said)
            self.assertRegex(said, r"not measured: tf32 \(.*\): .*found tf32 on CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, type=os.path.abspath, metavar="FOLDER")
    parser.add_argument("--cpu", type=os.path.abspath, metavar="FOLDER", help="measures on CPU workers, into it")
    given, rest = parser.parse_known_args()
    PROGRAMS, CPU_FOLDER = given.programs, given.cpu
    if CPU_FOLDER:
        os.makedirs(CPU_FOLDER, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest])
