"""pdl.predict: the answers of pdl-sim, with Python's values for words. tests/python_module.py runs it."""

import json
import os
import pathlib
import subprocess
import unittest

import numpy
import pdl

TEXTBOOK = {"gpus": 2, "depth": 2, "dim": 64, "batch": 64, "microbatches": 2, "schedule": "gpipe", "tf": 1, "tb": 2}


class PredictTest(unittest.TestCase):
    def test_two_stages_and_two_micro_batches(self):
        # GPU 0  F0 F1 .. B0 B0 B1 B1 ..     (2 + 2 - 1) x 3 ms: forwards 0 to 3, backwards 3 to 9
        # GPU 1  .. F0 F1 B0 B0 B1 B1
        step = pdl.predict(**TEXTBOOK)
        self.assertEqual(step.step_time_ms, 9)
        self.assertAlmostEqual(step.bubble_fraction, 1 - 12 / 18)
        self.assertEqual([gpu.busy_ms for gpu in step.gpus], [6, 6])
        self.assertEqual([gpu.idle_ms for gpu in step.gpus], [3, 3])
        self.assertEqual((step.transfers.count, step.transfers.bytes), (4, 4 * 32 * 64 * 4))
        self.assertEqual(step.collectives.count, 0)
        self.assertEqual(step.profile, "")
        self.assertIsNone(step.host_share)
        self.assertEqual((step.half_width_90_ms, step.unprobed_share, step.probe_command), (None, None, ""))
        self.assertEqual(step.settings["schedule"], "gpipe")

    def test_the_main_example_comes_from_the_profile_of_the_package(self):
        step = pdl.predict(gpus=5, depth=20, schedule="gpipe")
        self.assertEqual(step.profile, "h100x4")
        self.assertEqual(len(step.gpus), 5)
        self.assertGreater(step.step_time_ms, step.bound_ms)
        self.assertEqual(step.parameters, 20 * (8192 * 8192 + 8192))
        self.assertEqual(step.peak_memory_bytes, max(gpu.peak_memory_bytes for gpu in step.gpus))
        self.assertTrue(any("transfers copy" in warning for warning in step.warnings))
        self.assertEqual(json.loads(step.json())["step_time_ms"]["median"], step.step_time_ms)

    def test_the_answer_is_that_of_the_command_line_to_the_byte(self):
        program = pathlib.Path(os.environ["PDL_SIM"])
        if not program.exists():
            self.skipTest("pdl-sim is not built")
        words = ["--gpus", "2", "--strategy", "ddp", "--dim", "1024", "--depth", "2", "--batch", "64", "--no-sync", "--accum",
                 "2", "--json", "-"]
        said = subprocess.run([program, *words], capture_output=True, check=True, encoding="utf-8").stdout
        step = pdl.predict(gpus=2, strategy="ddp", dim=1024, depth=2, batch=64, no_sync=True, accum=2)
        self.assertEqual(step.json(), said)
        self.assertIn("bound by the host", said)
        self.assertGreater(step.host_share, 0.1)

    def test_spans_are_arrays_of_numpy(self):
        spans = pdl.predict(**TEXTBOOK).spans()
        self.assertEqual(list(spans), ["name", "kind", "worker", "stage", "microbatch", "stream", "start_us", "end_us"])
        self.assertTrue(all(isinstance(column, numpy.ndarray) for column in spans.values()))
        of_first = (spans["worker"] == 0) & (spans["stream"] == "compute") & (spans["end_us"] > spans["start_us"])
        order = numpy.argsort(spans["start_us"][of_first])
        self.assertEqual(spans["name"][of_first][order].tolist(), ["F0", "F1", "B0", "B1"])
        self.assertEqual(spans["start_us"][of_first][order].tolist(), [0, 1000, 5000, 7000])
        self.assertEqual(spans["end_us"].max(), 9000)
        self.assertEqual((spans["start_us"].dtype, spans["worker"].dtype), (numpy.float64, numpy.int32))

    def test_words_are_pythons_values(self):
        flags = {**TEXTBOOK, "tf": [1, 1.0], "tb": (2, numpy.float64(2)), "gpus": numpy.int64(2), "recompute": False,
                 "chunks": None}
        step = pdl.predict(**flags)
        self.assertEqual((step.settings["gpus"], step.settings["tf"], step.settings["tb"]), ("2", "1,1", "2,2"))
        self.assertNotIn("recompute", step.settings)
        self.assertEqual(step.step_time_ms, 9)
        self.assertEqual(pdl.predict(**TEXTBOOK, recompute=True).step_time_ms, 11)  # R0 runs while GPU 0 waits for B0 of GPU 1

    def test_a_profile_by_its_name_or_its_path(self):
        known = {profile.name: profile for profile in pdl.profiles()}
        self.assertLessEqual({"h100x4", "h200x2", "h200x4"}, set(known))
        self.assertEqual((known["h200x2"].card, known["h200x2"].count), ("NVIDIA H200", 2))
        self.assertTrue(known["h200x2"].path.startswith(os.path.dirname(pdl.__file__)))
        named = pdl.predict(gpus=2, strategy="ddp", profile="h200x2")
        self.assertEqual(named.json(), pdl.predict(gpus=2, strategy="ddp", profile=pathlib.Path(known["h200x2"].path)).json())

    def test_what_is_wrong_is_a_value_error_and_what_cannot_run_a_runtime_error(self):
        for settings, said in (({"gpus": 0}, "gpus: found 0, expected a whole number from 1"),
                               ({"gups": 2}, "expected gpus"),
                               ({"gpus": [2, 3]}, "gpus: found 2,3"),
                               ({"gpus": {}}, "gpus: found {}, expected a number"),
                               ({"tf": []}, "tf: found an empty list"),
                               ({"profile": "h300"}, 'found "h300", expected h100x4'),
                               ({"memory": "much"}, "memory: found much, expected an amount of memory")):
            with self.subTest(settings=settings), self.assertRaises(pdl.InputError) as refused:
                pdl.predict(**settings)
            self.assertIn(said, str(refused.exception))
            self.assertIsInstance(refused.exception, ValueError)
        with self.assertRaisesRegex(pdl.CannotRun, "out of memory: GPU 0 needs") as refused:
            pdl.predict(gpus=4, schedule="1f1b", memory="1MiB")
        self.assertIsInstance(refused.exception, RuntimeError)
        self.assertEqual(pdl.predict(**TEXTBOOK, memory=1 << 30).step_time_ms, 9)

    def test_everything_public_says_what_it_is(self):
        for name in pdl.__all__:
            described = getattr(pdl, name)
            self.assertTrue(described.__doc__, name)
            for field, value in vars(described).items() if isinstance(described, type) else ():
                if not field.startswith("_"):
                    self.assertTrue(value.__doc__, f"{name}.{field}")
                    if field.endswith("_ms"):
                        self.assertIn("milliseconds", value.__doc__, f"{name}.{field}")
        self.assertRegex(pdl.__version__, r"^[0-9]+(\.[0-9]+)+$")
        self.assertIn("bucket-mb", [setting.name for setting in pdl.settings()])


if __name__ == "__main__":
    unittest.main()
