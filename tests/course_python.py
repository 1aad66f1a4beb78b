#!/usr/bin/env python3
"""Runs the plain PyTorch program of every exercise (scenarios/python) on the CPU with tiny sizes, and checks what it printed.

  PYTHONPATH=~/.cache/pdl/torch-2.11.0 tests/course_python.py
  PYTHONPATH=... tests/course_python.py OptionC            one group of checks

Programs of DDP run with two processes. Exit code: 0 fine, 1 not, 77 (skipped) if Python has no PyTorch 2.11 with Gloo.
Left out: times (a shared CPU), GPUs.
"""

import multiprocessing
import os
import pathlib
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import unittest
import warnings

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "scenarios", "python")
TINY = ["--device", "cpu", "--dim", "16", "--depth", "6", "--batch", "16", "--steps", "8"]
TIMEOUT_S = 120
FORK = multiprocessing.get_context("fork")


def program(name):
    return os.path.join(FOLDER, f"{name}.py")


def run_here(name, words, more_environment, out, errors):
    """In a process of its own, forked from this one, so that PyTorch is not imported again: that takes seconds."""
    for descriptor, path in ((1, out), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.update(more_environment)
    sys.argv = [program(name), *TINY, *words]
    sys.path.insert(0, FOLDER)
    runpy.run_path(program(name), run_name="__main__")


def run_processes(name, words, environments):
    """A process for each of `environments`: (exit code, standard output, standard error) of each."""
    with tempfile.TemporaryDirectory(prefix="pdl-course-") as folder:
        files = [(os.path.join(folder, f"{rank}.out"), os.path.join(folder, f"{rank}.err")) for rank in range(len(environments))]
        processes = [FORK.Process(target=run_here, args=(name, words, more, *paths)) for more, paths in zip(environments, files)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join()
        return [(process.exitcode, *(pathlib.Path(path).read_text(encoding="utf-8") for path in paths))
                for process, paths in zip(processes, files)]


def output_of(name, words, environments):
    results = run_processes(name, words, environments)
    for rank, (code, _, errors) in enumerate(results):
        if code != 0:
            raise AssertionError(f"{name}: process {rank} ended with {code}: {errors}")
    return results[0][1]


def run(name, *words):
    """What a program of one process prints; it must end with 0."""
    return output_of(name, words, [{}])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_ddp(name, *words):
    """What rank 0 of a program of DDP prints: two processes with the environment that torchrun gives them."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    return output_of(name, words, [common | {"RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")])


def medians(output):
    """{"2 GPUs": 1.23, ...}: the lines of report()."""
    return {what.strip(): float(ms) for what, ms in re.findall(r"^(.*): median ([0-9.]+) ms", output, re.MULTILINE)}


def order_of(output):
    return re.findall(r"order of execution: ((?:[FB]\d+ ?)+)", output)


def losses_of(output):
    return [(float(first), float(last)) for first, last in re.findall(r"first step ([0-9.]+), of the last ([0-9.]+)", output)]


class EveryExercise(unittest.TestCase):
    def test_each_scenario_of_an_exercise_has_a_program(self):
        scenarios = os.listdir(os.path.join(ROOT, "scenarios"))
        exercises = {name[:-5] for name in scenarios if name.endswith(".json") and not name.startswith("validation")}
        programs = {name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py")}
        self.assertEqual(programs - {"course_model"}, exercises)


class Homework1(unittest.TestCase):
    def test_a_benchmark_that_can_be_repeated_as_torchrun_starts_it(self):
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
             program("hw1_1_reproducible_benchmark"), *TINY],
            capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        output = done.stdout
        warmup = re.findall(r"warm-up steps in ms: (.*)", output)
        steps = re.findall(r"  steps in ms: (.*)", output)
        self.assertEqual([len(line.split()) for line in warmup], [5, 5, 5])
        self.assertEqual([len(line.split()) for line in steps], [3, 3, 3])
        self.assertIn("of 3 steps, 5 warm-up steps dropped", output)
        self.assertIn("two runs with seed 0: equal losses", output)
        self.assertIn("seed 0 and seed 1: different losses", output)

    def test_strong_scaling(self):
        output = run_ddp("hw1_2_strong_scaling")
        self.assertEqual(list(medians(output)), ["1 GPU", "2 GPUs"])
        speedups = [float(text) for text in re.findall(r"speed-up ([0-9.]+)", output)]
        times = medians(output)
        self.assertAlmostEqual(speedups[1], times["1 GPU"] / times["2 GPUs"], delta=0.01)

    def test_communication_and_computation_of_two_models(self):
        output = run_ddp("hw1_3_communication_computation", "--small", "8x2", "--large", "32x3")
        whole = [what for what in medians(output) if not what.startswith("without")]
        self.assertEqual(whole, ["small (8x2), 1 GPU", "small (8x2), 2 GPUs", "large (32x3), 1 GPU", "large (32x3), 2 GPUs"])
        self.assertEqual(output.count("without the all-reduce"), 4)

    def test_data_parallel_and_ddp(self):
        self.assertEqual(list(medians(run_ddp("hw1_4_dataparallel_ddp"))), ["DDP, 2 processes", "DataParallel, 1 GPU"])

    def test_a_delay_is_in_every_step(self):
        times = medians(run_ddp("hw1_5a_artificial_delay", "--delays", "0,50"))
        self.assertEqual(len(times), 4)
        self.assertGreater(times["delay 50 ms, 1 GPU"], 50)
        self.assertGreater(times["delay 50 ms, 2 GPUs"], 50)

    def test_batch_sizes(self):
        output = run_ddp("hw1_5b_batch_size", "--batches", "16,32")
        self.assertEqual(list(medians(output)), ["batch 16, 1 GPU", "batch 16, 2 GPUs", "batch 32, 1 GPU", "batch 32, 2 GPUs"])

    def test_all_ranks_wait_for_the_slow_one(self):
        output = run_ddp("hw1_5c_imbalance", "--sleep-ms", "60")
        ranks = re.findall(r"median step of each rank in ms: (.*)", output)
        self.assertEqual(len(ranks), 2)
        self.assertGreater(min(float(ms) for ms in ranks[1].split()), 50)  # rank 1 does not sleep


class Homework2(unittest.TestCase):
    def test_the_loss_of_amp_is_that_of_fp32(self):
        output = run_ddp("hw2_1_amp_accumulation")
        self.assertIn("ACCUM_STEPS 4, effective batch 64", output)
        (fp32_first, fp32_last), (amp_first, amp_last) = losses_of(output)
        self.assertAlmostEqual(amp_first, fp32_first, delta=1e-3)
        self.assertAlmostEqual(amp_last, fp32_last, delta=1e-3)
        self.assertLess(fp32_last, fp32_first)

    def test_three_codes(self):
        output = run_ddp("hw2_2_three_codes")
        self.assertEqual([what[:6] for what in medians(output)], ["code 1", "code 2", "code 3"])
        self.assertEqual(output.count("0 steps skipped, 0 losses not finite"), 3)

    def test_sweep_of_accumulation(self):
        output = run_ddp("hw2_3_accumulation_sweep", "--accum-steps", "2,4")
        self.assertEqual(len(medians(output)), 8)
        self.assertEqual(output.count("effective batch 64"), 4)


class Homework3(unittest.TestCase):
    def test_the_data_moves_once_between_two_gpus(self):
        output = run("hw3_1_current_behaviour")
        self.assertIn("GPU 0: layers 0 1 2\nGPU 1: layers 3 4 5\n", output)
        self.assertEqual(re.findall("the data moves before layer (.*)", output), ["3, from GPU 0 to GPU 1"])

    def test_depths(self):
        self.assertEqual(list(medians(run("hw3_2_model_size", "--depths", "2,4"))), ["2 layers", "4 layers"])

    def test_the_first_gpus_take_the_layers_that_are_left(self):
        output = run("hw3_3_all_gpus", "--depth", "7", "--gpus", "3")
        self.assertIn("GPU 0: layers 0 1 2\nGPU 1: layers 3 4\nGPU 2: layers 5 6\n", output)

    def test_two_and_five_gpus_compute_the_same(self):
        output = run("hw3_4_more_gpus", "--depth", "20")
        self.assertIn("layers by GPU: 10 10 ;", output)
        self.assertIn("layers by GPU: 4 4 4 4 4 ;", output)
        losses = re.findall("loss of the last step ([0-9.]+)", output)
        self.assertEqual(losses[0], losses[1])

    def test_moves_on_two_and_on_five_gpus(self):
        output = run("hw3_5_data_transfer", "--depth", "20")
        self.assertEqual(re.findall(r"(\d+) calls of .to\(layer_device\), (\d+) moves of (\d+) bytes", output),
                         [("20", "1", "1024"), ("20", "4", "1024")])


class Pipelines(unittest.TestCase):
    def test_gpipe_and_1f1b_with_a_process_a_gpu(self):
        output = run_ddp("hw4_pipeline", "--microbatches", "4")
        lines = re.findall(r"rank \d: ([FB ]+); in flight at most (\d+)", output)
        self.assertEqual(lines, [("F F F F B B B B", "4")] * 2 + [("F F B F B F B B", "2"), ("F B F B F B F B", "1")])
        gpipe, one_f_one_b = losses_of(output)
        self.assertEqual(gpipe, one_f_one_b)

    def test_the_options_by_themselves(self):
        for name, expected in (("p9_option_a_naive", "F0 B0 F1 B1 F2 B2 F3 B3"), ("p9_option_b_gpipe", "F0 F1 F2 F3 B0 B1 B2 B3"),
                               ("p9_option_c", "F0 F1 B0 F2 B1 F3 B2 B3")):
            output = run(name, "--gpus", "3")
            self.assertEqual(order_of(output)[0].strip(), expected)
            self.assertIn("of 3 steps, 5 warm-up steps dropped", output)

    def test_part_4_has_nine_runs_whose_losses_are_equal_by_number_of_micro_batches(self):
        output = run("p9_part4")
        self.assertEqual(len(medians(output)), 9)
        losses = losses_of(output)
        for first in (0, 3, 6):  # options A, B and C
            for own in losses[first : first + 3]:
                self.assertAlmostEqual(own[0], losses[0][0], delta=1e-6)
                self.assertAlmostEqual(own[1], losses[0][1], delta=1e-6)
                self.assertLess(own[1], own[0])


class OptionC(unittest.TestCase):
    """Without `i > 0`: losses[-1] is micro-batch 0 itself, whose backward runs twice."""

    def test_without_the_condition_pytorch_refuses_the_second_backward(self):
        code, _, errors = run_processes("p9_option_c", ["--without-condition"], [{}])[0]
        self.assertEqual(code, 1)
        self.assertIn("after F0 B0 F1: RuntimeError: Trying to backward through the graph a second time", errors)

    def test_with_the_graph_kept_the_gradient_is_wrong(self):
        output = run("p9_option_c", "--without-condition", "--retain-graph")
        self.assertEqual(order_of(output)[0].strip(), "F0 B0 F1 B0 F2 B1 F3 B2 B3")
        self.assertGreater(int(re.search(r"the gradient is wrong by (\d+) %", output).group(1)), 10)

    def test_the_answer_to_hw4_3_quotes_what_the_program_does(self):
        path = pathlib.Path(ROOT, "sim", "course", "answers_option_c.cpp")
        answer = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))  # literals over several lines
        self.assertIn('after F0 B0 F1 with \\"RuntimeError: Trying to backward through the graph a second time', answer)
        quoted = int(re.search(r"F0 B0 F1 B0 F2 B1 F3 B2 B3, and the gradient is wrong by (\d+) %", answer).group(1))
        output = run("p9_option_c", "--dim", "64", "--depth", "8", "--batch", "64", "--without-condition", "--retain-graph")
        self.assertAlmostEqual(int(re.search(r"wrong by (\d+) %", output).group(1)), quoted, delta=1)


def why_skipped():
    try:
        import torch  # here, and in no process that is forked from this one
    except (ImportError, OSError) as problem:  # OSError: it does not find a library of CUDA
        return f"no PyTorch in this Python ({problem})"
    gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
    if not torch.__version__.startswith("2.11.") or not gloo:
        return f"PyTorch {torch.__version__} {'with' if gloo else 'without'} Gloo, not 2.11 with it"
    return ""


if __name__ == "__main__":
    # Before PyTorch is imported: one thread a process, no __pycache__ beside the programs.
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    reason = why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
