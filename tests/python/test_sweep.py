"""pdl.sweep: rows for pandas. tests/python_module.py runs it."""

import unittest

import pdl

TEXTBOOK = {"depth": 4, "dim": 64, "batch": 64, "microbatches": 4, "tf": 1, "tb": 2}


class SweepTest(unittest.TestCase):
    def test_every_combination_is_a_row_with_numbers(self):
        # Textbook pipelines of P stages and 4 micro-batches: (4 + P - 1) x 3 ms.
        rows = pdl.sweep(gpus=[2, 4], schedule=["gpipe", "1f1b"], **TEXTBOOK)
        self.assertEqual([(row["gpus"], row["schedule"], row["step_time_ms"]) for row in rows],
                         [(2, "gpipe", 15), (2, "1f1b", 15), (4, "gpipe", 21), (4, "1f1b", 21)])
        self.assertTrue(all(row["refused"] is None and row["within_memory_limit"] for row in rows))
        self.assertIsInstance(rows[0]["peak_memory_bytes"], int)
        self.assertEqual({key for row in rows for key in row}, set(rows[0]))
        self.assertTrue(all("-" not in key for key in rows[0]))

    def test_what_cannot_run_is_a_row_with_its_reason(self):
        fits, refused = pdl.sweep(gpus=[2, 8], schedule="gpipe", **TEXTBOOK)
        self.assertIsNone(fits["refused"])
        self.assertIn("layers", refused["refused"])
        self.assertIsNone(refused["step_time_ms"])
        self.assertFalse(refused["within_memory_limit"])

    def test_lists_ranges_and_times_of_stages(self):
        self.assertEqual([row["microbatches"] for row in pdl.sweep(**{**TEXTBOOK, "gpus": 2, "microbatches": "2:8:x2"})],
                         [2, 4, 8])
        stages = pdl.sweep(**{**TEXTBOOK, "gpus": 2, "tf": [[1, 1], [1, 3]]})
        self.assertEqual([row["tf"] for row in stages], ["1,1", "1,3"])
        self.assertLess(stages[0]["step_time_ms"], stages[1]["step_time_ms"])

    def test_a_row_has_the_setting_that_is_swept_also_where_it_is_the_default(self):
        self.assertEqual([row["recompute"] for row in pdl.sweep(**{**TEXTBOOK, "gpus": 2, "recompute": [False, True]})], [0, 1])

    def test_speedup_against_the_fewest_gpus_and_rows_within_memory(self):
        one, two = pdl.sweep(gpus=[1, 2], strategy="ddp", dim=4096, batch=512, profile="h200x2", scaling="weak", threads=1,
                             memory="1KiB")
        self.assertEqual((one["batch"], two["batch"], one["speedup"], one["efficiency"]), (512, 1024, 1, 1))
        self.assertAlmostEqual(two["speedup"], two["throughput_samples_per_s"] / one["throughput_samples_per_s"])
        self.assertFalse(one["within_memory_limit"])

    def test_values_that_no_configuration_could_have_are_refused(self):
        for settings, said in (({"gpus": [0, 1]}, "gpus: found 0"), ({"gups": [1]}, "unknown setting gups, expected gpus"), ({"gpus": []}, "gpus: found an empty list"),
                               ({"scaling": "linear"}, "scaling: found linear, expected strong or weak")):
            with self.subTest(settings=settings), self.assertRaises(pdl.InputError) as refused:
                pdl.sweep(**settings)
            self.assertIn(said, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
