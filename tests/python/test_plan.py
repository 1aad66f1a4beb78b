"""pdl.plan: the best configurations, as plain values. tests/python_module.py runs it."""

import unittest

import pdl

TEXTBOOK = {"gpus": 2, "microbatches": 4, "tf": 1, "tb": 1, "tw": 1}


class PlanTest(unittest.TestCase):
    def test_the_best_is_first_and_every_other_has_lost_by_something(self):
        plan = pdl.plan(best=3, **TEXTBOOK)
        steps = [row["step_time_ms"] for row in plan["best"]]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual((plan["best"][0]["verdict"], plan["best"][0]["behind_by"]), ("fastest", None))
        self.assertEqual(sum(plan["lost"].values()) + len(steps), plan["configurations"])
        self.assertIsNone(plan["memory_limit_bytes"])
        self.assertIsNone(plan["faster_with_more_memory"])

    def test_a_list_is_searched_alone_and_a_row_is_what_predict_says(self):
        plan = pdl.plan(gpus=2, depth=4, dim=1024, batch=64, schedule=["gpipe", "1f1b"], profile="h200x2")
        self.assertLessEqual({row["schedule"] for row in plan["best"]}, {"gpipe", "1f1b"})
        best = plan["best"][0]
        self.assertEqual(plan["profile"], "h200x2")
        words = {name: best[name] for name in ("gpus", "depth", "dim", "batch", "schedule", "microbatches", "transport", "workers",
                                               "recompute", "pp", "dp") if name in best}
        self.assertEqual(pdl.predict(profile="h200x2", **words).step_time_ms, best["step_time_ms"])

    def test_what_does_not_fit_says_what_comes_nearest(self):
        with self.assertRaises(pdl.CannotRun) as refused:
            pdl.plan(gpus=2, depth=4, profile="h200x2", memory="1KiB")
        self.assertIn("the least is ", str(refused.exception))
        with self.assertRaises(pdl.InputError):
            pdl.plan(gpus=0)


if __name__ == "__main__":
    unittest.main()
