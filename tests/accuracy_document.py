#!/usr/bin/env python3
"""Writes docs/accuracy.md from the committed runs, and what README.md and docs/*.md show of the programs, or checks them.

  tests/accuracy_document.py --pdl-sim build/sim/pdl-sim            writes docs/accuracy.md, and the marked parts of documents
  tests/accuracy_document.py --pdl-sim build/sim/pdl-sim --check    exit code 1 if a document would change

The numbers come from `pdl-sim validate` over data/*/runs/*.json and the runs of PyTorch's programs (data/*/runs_pytorch),
from data/*/peers_*.json and pytorch_*.json, and from data/*/matrix_predictions*.json: what tests/gpu/matrix predicted
before it measured. The words around them are here. No
number is typed in. Marked parts of README.md and docs/*.md are

  accuracy    errors in five rows
  output      what the command above prints: the last line of the indented block before the mark, which writes no file
"""

import argparse
import functools
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ACCURACY = "<!-- accuracy: written by tests/accuracy_document.py -->", "<!-- /accuracy -->"
OUTPUT = "<!-- output: written by tests/accuracy_document.py -->", "<!-- /output -->"
DRAWS = 40  # steps of a prediction, for its quantiles
WRITES = re.compile(r"--(html|trace|json|csv|markdown|schedule-csv)\b|>")

HEAD = """# Accuracy

Written by `tests/accuracy_document.py`; a test fails when it no longer says what the committed runs say.

Every run under `data/*/runs` against its prediction from the profile of the same machine, worst first. A profile is
fitted from probes alone (`data/*/samples.json`): none of these runs, and no figure of them, is in it. Runs under
`data/*/runs_on_host_*` are of other hosts with the same GPUs.

"""
SHAPES_HEAD = """
## Shapes that a probe measured, and others

A run is probed where all but half a per cent of its work is priced by what a probe measured: its layers have a width
of the calibration, in the run's number format. Host-bound steps are apart. inside: share of the runs whose measured
median lies within the error bar of the prediction, which 90 % should; half width: of that bar, in per cent of the
predicted step (-: the predictions have no error bar); p10 to p90: share of the measured medians between these
quantiles of {draws} steps that were drawn (`--noise {draws}`), which 80 % should.

| machine | steps | runs | mean (%) | median (%) | maximum (%) | inside (%) | median half width (%) | p10 to p90 (%) |
|:---|:---|---:|---:|---:|---:|---:|---:|---:|
"""

HISTORY_HEAD = """
## Which rule was written after which runs

No figure of a run is in a profile, but rules by which a profile is applied were written by people who had seen runs.
For those runs the error says how well a rule describes what was known, for later ones what a prediction is worth.

| runs | measured (UTC) | rules for such runs that were written afterwards |
|:---|:---|:---|
"""

# After the products of the shapes of three hosts' runs had been timed by themselves, to find what the model lacked. None of
# those times is in a profile.
KERNELS = ("Which kernel the library has for every row; pipelines in TF32 as products of their own; what waits for the second-level cache; of the fit, "
           "how near its parameters stay to what is expected, and how far a layer's measurement counts (both from probes that were held back). ")

# By folder of runs: what was changed after they were measured, of what decides the times of such runs.
HISTORY = {
    "h100x4/runs": "The floor of error bars. Copies between stages hold no multiprocessors. Before them, after an earlier set of pipelines that "
                   "they replace: a whole backward by the length of its stage.",
    "h200x2/runs": "Of times none: predicted with the rules of then and committed before, from a profile of 34 minutes before. The present one was "
                   "calibrated eleven hours later, with everything in one call. Of error bars: tensor cores beside all-reduces.",
    "h200x2/runs of PyTorch": "Predicted and committed before, with host times of Python of their own host. Afterwards: of split backwards the "
                              "copy of a gradient before a weight's half, the ReLU's backward in an input's half, and what they hold; "
                              "and the profile, calibrated 13 minutes before these runs on a host that may be theirs, took the place of an "
                              "older one.",
    "h200x2/runs_on_host_1": "Error bars; the power limit of tensor cores, and the kernels' model, from probes alone.",
    "h200x2/runs_on_host_2": "The same.",
    "h200x2/runs_on_host_3": KERNELS + "Before: the error bar of clocks; the power limit, after it was seen in these runs that tensor cores are faster "
                             "in steps than in probes; of several ways to fit kernels with clusters that with the smaller error here.",
    "h200x2/runs_on_host_4": "The same.",
    "h200x2/runs_on_host_5": KERNELS + "Before: a product whose blocks work through tiles loses no whole wave to an all-reduce (from these runs, and older "
                             "probes); the error bar of collectives beside compute.",
    "h200x2/runs_on_host_6 of PyTorch": "Of PyTorch's programs all: these were the first. They let losses and outputs go earlier than scripts do, "
                             "so that their memory is up to two outputs less.",
    "h200x2/runs_on_host_7 of PyTorch": "Predicted and committed before, with host times of Python of their own host, which other ones have "
                             "replaced; afterwards the same as of the runs beside the profile. Memory as on host 6.",
    "h200x2/runs_on_host_8": "Models of several kinds of layers, `linear` and `silu` among them, the first there were. Predicted before from a profile of "
                             "their own host, 4.6 % off in the mean: too short on tensor cores. Afterwards that numbers without a ReLU before "
                             "them draw 17 % more power, from a measurement of three days before (`docs/design.md`). Later the rules named with "
                             "the runs on host 9, which were seen to make these worse by a quarter of a per cent.",
    "h200x2/runs_on_host_8 of PyTorch": "The same.",
    "h200x2/runs_on_host_9": "Transformers, on one GPU: the first there were. Their kinds of layers were probed on that host, and predictions made "
                             "after the runs, from these probes. Seen in the runs: products of odd widths (a vocabulary of 50257) take other kernels than "
                             "their neighbours, so that these price each other no more; losses of few tokens; what autocast leaves of "
                             "cross-entropy in half precision, and that the gradients of a tied weight are three for a moment. Later, with the "
                             "runs in view: odd widths by whole tiles, what moves memory beside products at its own measured rate, the clock "
                             "that large products have in their own probes, a loss by the faster one of its measurement and its recording, one "
                             "power limit's slowdown for both half types at most, and the memory of a block's backward product by product.",
    "h200x2/runs_on_host_9 of PyTorch": "The same.",
    "h200x4/runs": "The floor of error bars; how much an all-reduce slows beside kernels that use the memory; the slowest host of DDP's "
                   "processes; what DataParallel's host calls; a kernel of few thread blocks beside a collective; and of "
                   "memory, what these runs showed to be missing.",
    "h200x4/runs_on_host_1": "The floor of error bars; a kernel of few thread blocks beside a collective (from the probe "
                             "of it).",
    "h200x4/runs_on_host_2": "The floor of error bars; how hosts are slower that have waited or slept, which needs a probe that this profile "
                             "lacks.",
    "h200x4/runs_on_host_3": "The same.",
}

HISTORY_TAIL = """
Runs on 2 x H200 at four widths that no probe had are not in `data/`: they were seen before there was any rule for such
widths, and judge none. Plans drawn by `tests/gpu/matrix` do: their predictions are committed before they are measured.
"""

BEFORE_HEAD = """
### Predicted before they were measured (`{path}`)

Plans drawn by `tests/gpu/matrix` with seed {seed}; the predictions are those of then, not of the present program and
profile.

{summary}

The ten largest errors:

{table}
"""


HOST_BOUND = """

Host-bound: with a host as slow as the slowest twentieth of its calls in the probes, more than 10 % of
the predicted step is the host's (it would be that much shorter if issuing took no time). Beside the error are that share, and
how far the measured steps spread (p25 to p75).

"""

NOTES = """
## What is behind the larger errors

* Tensor cores (2 x H200): the clock starts to fall some 50 ms after the load begins, is too low for a while after 0.7 s, and then varies. Runs
  judge a window of .2 to .8 s; longer trainings were not measured. GPUs differ: the same plans of one GPU at probed sizes are .6 % too long
  on average on one other host (`runs_on_host_3`) and 1.7 % on another. Some runs of those two began to measure 80 ms after the load.
* DDP on tensor cores with many samples: 5 to 8 % too short in TF32, fp16 as far. Backwards beside all-reduces take 667 us where the first, beside
  none, takes 598 (7 x 4096); the prediction has 588. No probe has products in TF32 beside an all-reduce. 8 x 8192, 4,096 samples: GPUs of a host have
  other clocks at the power limit, all wait for the slower one in every all-reduce (1.0 ms becomes 1.2 to 2.1), and the profile has their mean.
* The power limit counts the FLOPs of layers alone: copies, collectives and memory draw power too. Of 32 runs whose GPUs ended below 1,960 MHz 22 have
  their full clock in the prediction (15 x 3136 in TF32: 234 TFLOP/s in the mean, 1,620 MHz).
* DDP with few samples, bound by its all-reduces: 5 to 7 % too long (15 x 8192, 64 samples). All-reduces lose .1 to .2 beside copies in these
  steps, by the probe, all-reduces beside copies alone, more.
* TF32 whose layers no probe measured (up to 9 % off): kernels without clusters wait for the second-level cache as soon as their blocks are out of
  step; the model has when, and only roughly how long. Stream-K kernels whose tiles are nearly as many as the blocks take a wave or two more.
* AMP whose layers no probe measured (up to 9 %): nvjet has a hundred kernels of other tiles, most of them timed by few products of a calibration.
* fp32 of few rows in pipelines (16 x 1664 of 33 rows: 16 % too short; 11 x 1920 of 53): layers of 25 to 60 us, of which the host's part is not
  a tenth by the prediction, and more in the run.
* Shapes that are not square: the kernel is taken from a few shapes around, which is right for about two in three.
* The first work after a pause: on the host of `data/h200x2` predictions have .2 ms more at the start of a step than runs, 2 % of short ones.
* PyTorch's own programs, TF32 in DDP: 6 % too short, as `pdl-run`'s (above); fp16 by one thread: up to 6 %.
* PyTorch's programs that are bound by their host: 6 to 14 % too short on average by class, up to 29 %; on two other hosts up to 49 %. Steps of the
  probe follow each other, those of `pdl-run` wait for a barrier, and a loss is read and a line written between two. Whether that is why is
  not known: pipelines that a script ran without it (`pytorch_pipelining.json`, 1024 x 16) are 15 % shorter than predicted.
* Python's thread on other hosts of the same kind: the same probe on seven of them gave 97 to 547 us for a small backward, and 34 to 65 us for a layer's
  forward. Rows that are bound by the host cannot be expected to be right elsewhere.
* Peak memory of PyTorch's programs on other hosts 6 and 7: those runs dropped the losses of the step before at its begin, and DDP's output before
  the backward, which a script seldom does, and predictions do not: one or two outputs too high, up to 6 %. DDP on host 6 was measured from the
  start of the run, with the old buckets of the second step. Small models of host 6 have 32 MiB more, a workspace that a program before
  them had left.
* Noise (`--noise`): measured medians lie between p10 and p90 less often than in 80 % of the runs where predictions are off to one side:
  host-bound steps of DDP and DataParallel, of which the rows below say why.
* 8192 x 8 in 16 micro-batches, two chunks a GPU (dualpipe-v, zb-v, interleaved-zb; 3.8 to 4.7 % too short): the GPUs draw
  674 to 698 W of 700 W, with clocks of 1875 to 1980 MHz where the probes had 1980. In dualpipe-v and interleaved-zb one GPU's
  tasks are 3.0 to 4.2 % longer (1.3 ms a step) and the others wait for it; in zb-v two GPUs take 0.7 ms more. The power limit
  is the likely cause, not a proven one: clocks are one sample a run, and zb-h2 at the same power and clocks is 1.3 % too
  short. Steps vary by 1.1 to 2.6 % (p25..p75).
* Whole backwards of layers 4096 wide on 4 x H100 in 4 and 8 micro-batches (1f1b, gpipe, naive, option-c): their weight
  gradients run on a second stream beside the input gradients, and take 2.7 to 4.4 % less time in a step than in the probe. In
  2 and 16 micro-batches they agree to 1 %, as do input and weight gradients that run alone (zb-h1). Why is not known.
* zb-h2: its step is the maximum over the GPUs of the time from first task to last, taken from the spans of 5 recorded steps,
  which had a barrier between them; it was not run without one.
* One-thread programs (`_one`) are predicted up to 1.3 % too short, mostly at both ends of the step, which the probes do
  not see: the first work of a step that the host issues takes some 220 us longer than later ones, setting gradients to
  none takes 2 to 5 us a layer, and waiting for a device that has worked takes longer than for one that has not.
  Joined copies between two GPUs add about 7 us each; copies of 64 MiB vary from 180 to 360 us.
* Peak memory of DataParallel with AMP: up to 10 % too high on the GPUs other than the first, by about one layer's weights in half precision.
  Pipelines with a stage of one layer: up to 11 % too high on one GPU, by 32 MiB: the workspace of the second stream, on which such a stage runs
  its weight gradients only where that was faster when it was tuned.
* zb-h2 is measured by recorded steps with a barrier between them, other programs by steps without: 8 x 8192 in TF32 takes 65.8 ms by the first
  and 69.8 by the second. Its rows judge the first.
* Of the 156 plans of seed 16 one has no run: DDP Adam, 13 x 4096 with amp-fp16, whose loss is not finite after four steps, which pdl-run refuses.
* Rows below 16: no product of so few is timed, no run judges them, and predictions of 1 to 15 rows may be longer than those of 16. The bar has 10 %
  more with each halving.
* Peak memory of autograd's programs (`mp`, `_one`, ddp, dp): to 1.2 % in every run but those, most to .2 %. The rules are those of PyTorch's source and
  of its allocations on the CPU, but these runs showed where rules were missing (the buffer of a bias's sum from 1,024 rows on,
  what a mean keeps): they do not judge them. Pipelines with a worker a GPU: to .7 %, but for one GPU in four runs (`auto`, 1f1b in
  2 micro-batches), 2.0 to 2.6 % too high by 32 MiB: as much as the workspace of a second stream, which that GPU seems not to
  have taken.
* Data parallel: small models are bound by the host (1024 x 2, 4096 x 6 with AMP or few
  samples a GPU): their steps spread by 5 to 50 % (p25..p75) and from launch to launch by as much (4096 x 6 on 2 GPUs, batch
  32, 64 and 128: 3.1, 3.6 and 3.2 ms). They are predicted too short: in a step the host is slower than in the probes, which
  call one operation again and again. In runs of 4 processes one of them, another each time, is far slower than the others,
  and all wait for it in every all-reduce; the prediction takes the slowest of 4 such hosts.
* DataParallel, 1024 x 2: half as long as it is, or less. Its threads issue at the same time and hinder each other: a forward of two
  layers is issued in 160 us where one thread alone takes 20, and the threads end up to 270 us apart. No probe has several
  threads that issue at once.
* Data parallel, 4096 x 6 on 4 GPUs, one step of 64 to 256 samples, 5 to 10 % too short: the same, though less than 10 % by
  the rule above.
* The first forward after the host has waited for a step is longer than later ones: by 90 us after 3 ms to 360 us after 127
  ms. The first part of a backward after a sleep of 10 or 100 ms is longer by .6 to 1.0 ms. Predictions add both where the
  profile has the probe for it (`pauses`); those of four GPUs were measured before there was one, so it is most of what their
  rows with `delay` and of one GPU are too short.
* Other hosts: nothing says which machine a run was on but its day and its cores, so that these are other machines than
  that of the profile is likely, not shown. Their processors differ in speed, so host-bound rows cannot be expected to be
  right. 4096 x 6 of 32 samples on 2 GPUs is among the GPU-bound ones, by .1 %: its spread (p25..p75) says otherwise.
* TF32 and AMP by the profile `h200x4`: its probes had tensor cores run alone until the GPU was at its power limit, with clocks of 1485 to
  1710 MHz; in steps it had 1875 to 1965 where it was looked at. Pipelines in TF32 come out up to 14 % too long, its own DDP runs are within 4 %.
* All-reduces beside kernels that use the memory: their slowdown comes from one probe, all-reduces beside copies, whose answer
  is uncertain by a half of itself.
* Layers of few rows beside an all-reduce: a forward of 128 thread blocks takes 1.4, 1.8 or 1.9 times its time alone by the
  kernel that does it (the probe says so); the prediction has 2 for each, as if all used the whole of a multiprocessor.
* The recorded step, whose spans and bubble are shown, differs by up to 1.7 % from the median step on pipelines (zb-h2 more:
  another quantity), and by up to 87 % for a host-bound data-parallel step: recording is work for the host.
* Environments of data-parallel runs give the power of one GPU for all.
* Losses move little in these runs (a random target, learning rate 0.01): that training is right is shown by the tests,
  which compare parameters with those of plain training on one device.
* `pp-auto_*` on 4 x H100: the schedules were found with this profile and ran later, on a host of the same GPUs that may be
  another one.
* Not covered by these runs, and worse: `--transport nccl`, whose kernels share the multiprocessors with the GEMMs. The
  engine does not model that yet (docs/design.md).
"""


OTHER_HOST = """
### {title} (`data/{folder}`)

Measured {date}, driver {driver}, NCCL {nccl}; predicted from the profile above, calibrated {calibrated} on another host with
the same GPUs, whose processors may be faster or slower.

{summary}

{table}
"""


# The same whatever the caller's shell has set.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if name != "PDL_DATA"}, "COLUMNS": "100"}


def said(*words):
    """What a command prints, from the root of the project."""
    return subprocess.run(words, capture_output=True, encoding="utf-8", check=True, cwd=ROOT, env=ENVIRONMENT).stdout


def files_of(folder, program):
    """The runs of a folder, and of that of PyTorch's beside it, that are of this program."""
    paths = sorted(glob.glob(os.path.join(folder, "*.json")) + glob.glob(os.path.join(folder + "_pytorch", "*.json")))
    return [path for path in paths if program_of(path) == program]


@functools.cache
def program_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["config"].get("program", "pdl")


PROGRAMS_HEAD = """
### PyTorch's own programs (`--program pytorch`)

{count} runs of single GPUs, DDP, DataParallel and pipelines as PyTorch runs them, measured {dates}, predicted from this
profile. Errors with their sign are above 0 where predictions are too long. The last table but those of runs, where there is one: of
the pipelines of a model, how well predictions rank the plans, and the plan that is named best beside the best.

"""


def tables_of_pytorch(pdl_sim, folder):
    """The section of the runs of PyTorch's programs of a folder of runs; empty where there are none."""
    runs = files_of(folder, "pytorch")
    if not runs:
        return ""
    dates = sorted({environment_of(path)["date"][:10] for path in runs})
    blocks = said(pdl_sim, "validate", *runs, "--markdown", "-").strip().split("\n\n")
    tables = [block for block in blocks if block.startswith("|")]
    head = PROGRAMS_HEAD.format(count=len(runs), dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))))
    return head + "\n\n".join(tables) + "\n"


def environment_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["environment"]


def validated(pdl_sim, runs):
    blocks = said(pdl_sim, "validate", *runs, "--markdown", "-").strip().split("\n\n")
    summary, *tables = [block for block in blocks if block.startswith("|")]
    return summary, (HOST_BOUND.join(tables) if len(tables) > 1 else tables[0]).strip()


def folders_of_other_hosts(folder):
    """Those of hosts that have runs and no profile of their own; PyTorch's runs in folders beside them are found by files_of()."""
    paths = sorted(glob.glob(os.path.join(ROOT, "data", folder, "runs_on_host_*")))
    return [path for path in paths if not path.endswith("_pytorch")]


def other_hosts(pdl_sim, folder, calibrated):
    """The section of each host that has runs and no profile of its own."""
    for number, path in enumerate(folders_of_other_hosts(folder), start=1):
        ours, runs = files_of(path, "pdl"), []
        for name in ours or files_of(path, "pytorch"):
            with open(name, encoding="utf-8") as file:
                runs.append(json.load(file))
        environment = runs[0]["environment"]
        summary, table = validated(pdl_sim, ours) if ours else ("Of PyTorch's programs alone:", "")
        gpus = max(run["config"]["gpus"] for run in runs)
        title = f"Other host {number}: {gpus} x {environment['card']}, {len(runs)} runs"
        section = OTHER_HOST.format(title=title, folder=os.path.relpath(path, os.path.join(ROOT, "data")), calibrated=calibrated,
                                    date=environment["date"][:10], driver=environment["driver"], nccl=environment["nccl"],
                                    summary=summary, table=table)
        peers = peer_table(os.path.join(folder, f"host_{number}_peers_*.json"))
        yield section + (PEERS_HEAD + peers if peers else "") + tables_of_pytorch(pdl_sim, path)


def machine_tables(pdl_sim):
    for folder in sorted(glob.glob(os.path.join(ROOT, "data", "*"))):
        runs = files_of(os.path.join(folder, "runs"), "pdl")
        if not runs:
            continue
        with open(os.path.join(folder, "profile.json"), encoding="utf-8") as file:
            environment = json.load(file)["environment"]
        summary, table = validated(pdl_sim, runs)
        title = f"{environment['count']} x {environment['card']}"
        facts = f"driver {environment['driver']}, CUDA {environment['cuda']}, NCCL {environment['nccl']}, " \
                f"PyTorch {environment['torch']}, calibrated {environment['date'][:10]}"
        yield os.path.basename(folder), title, facts, summary, table


PEERS_HEAD = "\n### Step times beside PyTorch, same GPUs, same call\n\n"


def peer_table(pattern):
    """Of the files of one host. Of a case that was measured more than once, the newest."""
    files = []
    for path in glob.glob(os.path.join(ROOT, "data", pattern)):
        with open(path, encoding="utf-8") as file:
            files.append(json.load(file))
    lines = {}
    for content in sorted(files, key=lambda content: content["environment"]["date"]):
        for case in content["cases"]:
            peer, ours, ratio = case["pytorch_step_time_ms"], case["ours_step_time_ms"], case["ratio_ours_to_pytorch"]
            lines[case["case"]] = ratio, f"| {case['case']} | {peer['median']:.2f} | {ours['median']:.2f} | {ratio:.3f} |"
    if not lines:
        return ""
    head = "| case | PyTorch (ms) | pdl-run (ms) | pdl-run / PyTorch |\n|:---|---:|---:|---:|\n"
    return head + "\n".join(line for _, line in sorted(lines.values(), reverse=True)) + "\n"


PYTORCH_HEAD = """
### Pipelines of PyTorch, predicted (`--program pytorch`)

Steps of torch.distributed.pipelining ({files}), each beside its prediction from this profile. Of each model all
schedules and numbers of micro-batches: how far the predictions are off, Spearman's rank correlation of predicted and
measured step times, and the measured time of the plan that is predicted to be fastest, over that of the fastest.
{host}

| model | plans | mean (%) | median (%) | maximum (%) | rank correlation | best named / best |
|:---|---:|---:|---:|---:|---:|---:|
"""
PYTHON_OF_ANOTHER = """This profile has host times of Python of another machine ({machine}): plans that are bound by Python (narrow layers,
split backwards, many micro-batches) are as far off as its hosts are faster or slower.
"""


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0] * len(values)
    for rank, index in enumerate(order):
        result[index] = rank
    return result


def rank_correlation(one, other):
    """Spearman's, of values without ties."""
    count = len(one)
    squares = sum((a - b) ** 2 for a, b in zip(ranks(one), ranks(other)))
    return 1 - 6 * squares / (count * (count * count - 1))


def pytorch_case(pdl_sim, folder, gpus, case):
    words = [f"--{key}={case[key]}" for key in ("dim", "depth", "batch", "microbatches")]
    predicted = json.loads(said(pdl_sim, *words, f"--gpus={gpus}", f"--schedule={case['program']}", "--program=pytorch",
                                "--profile", os.path.join("data", folder, "profile.json"), "--json", "-"))
    memory = [abs(gpu["peak_memory_bytes"] / measured - 1) * 100
              for gpu, measured in zip(predicted["gpus"], case.get("pytorch_peak_memory_bytes", []))]
    return predicted["step_time_ms"]["median"], case["pytorch_step_time_ms"]["median"], memory


def pytorch_tables(pdl_sim, folder):
    """PyTorch's pipelines on the machine of a profile: a line a model, then every plan, the worst first."""
    models, files, rows, memory = {}, [], [], []
    for path in sorted(glob.glob(os.path.join(ROOT, "data", folder, "p*_pipelining.json"))):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        files.append(f"`{os.path.basename(path)}`, {content['environment']['date'][:10]}")
        for case in content["cases"]:
            model = case["case"].split("  ")[0]
            predicted, measured, of_gpus = pytorch_case(pdl_sim, folder, content["environment"]["gpus"], case)
            models.setdefault(model, []).append((predicted, measured))
            memory += of_gpus
            error = (predicted / measured - 1) * 100
            rows.append((abs(error), f"| {case['case']} | {measured:.2f} | {predicted:.2f} | {error:+.1f} |"))
    if not models:
        return ""
    lines = []
    for model, plans in models.items():
        errors = [abs(predicted / measured - 1) * 100 for predicted, measured in plans]
        named = min(plans)[1] / min(measured for _, measured in plans)
        correlation = rank_correlation(*zip(*plans))
        lines.append(f"| {model} | {len(plans)} | {statistics.mean(errors):.2f} | {statistics.median(errors):.2f} | "
                     f"{max(errors):.1f} | {correlation:.3f} | {named:.3f} |")
    with open(os.path.join(ROOT, "data", folder, "profile.json"), encoding="utf-8") as file:
        environment = json.load(file)["environment"]
    others = [added for added in environment.get("added", []) if "python" in added and added["count"] != environment["count"]]
    host = "".join(PYTHON_OF_ANOTHER.format(machine=f"{added['count']} x {added['card']}") for added in others[-1:])
    text = PYTORCH_HEAD.format(files="; ".join(files), host=host) + "\n".join(lines)
    if memory:
        text += f"\n\nPeak memory, of {len(memory)} GPUs, is off by {mean_and_maximum(memory)}."
    head = "\n\n| plan | PyTorch (ms) | predicted (ms) | error (%) |\n|:---|---:|---:|---:|\n"
    return text + head + "\n".join(line for _, line in sorted(rows, reverse=True)) + "\n"


BOUND_HEAD = """
### Above the schedule itself

The ideal step time of a schedule is that with the compute times of the profile alone: no transfers, no host, no optimizer.
What a measured step takes more, in per cent of it, and where it goes: the optimizer of the slowest GPU; transfers
that nothing hides, host and launches (the prediction without the optimizer, less the ideal step time); and what the prediction does
not know (measured less predicted; negative: the step was faster).

| run | ideal step time (ms) | measured (ms) | above (%) | optimizer (%) | transfers, host (%) | not predicted (%) |
|:---|---:|---:|---:|---:|---:|---:|
"""


def bound_line(pdl_sim, folder, path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    config = run["config"]
    replicas = config.get("dp", 1)
    if config["strategy"] != "pp" or config["workers"] == "one" or config["gpus"] < 4 or replicas > 1 or "schedule_rows" in run:
        return None
    words = [f"--{key}={value}" for key, value in config.items()]
    predicted = json.loads(said(pdl_sim, *words, "--profile", os.path.join("data", folder, "profile.json"), "--json", "-"))
    bound, step, measured = predicted["bound_ms"], predicted["step_time_ms"]["median"], run["step_time_ms"]["median"]
    of_gpu = {}
    for span in predicted["spans"]:
        if span["kind"] == "optimizer":
            of_gpu[span["worker"]] = of_gpu.get(span["worker"], 0) + (span["end_us"] - span["start_us"]) / 1e3
    optimizer = max(of_gpu.values())
    parts = [measured - bound, optimizer, step - bound - optimizer, measured - step]
    name = os.path.basename(path).removesuffix(".json")
    cells = " | ".join(f"{100 * part / bound:+.2f}" for part in parts)
    return (measured - bound) / bound, f"| {name} | {bound:.3f} | {measured:.3f} | {cells} |"


def bound_table(pdl_sim, folder):
    paths = files_of(os.path.join(ROOT, "data", folder, "runs"), "pdl")
    lines = [line for path in paths if (line := bound_line(pdl_sim, folder, path))]
    return BOUND_HEAD + "\n".join(line for _, line in sorted(lines, reverse=True)) + "\n" if lines else ""


ERRORS_HEAD = """
| steps | runs | mean (%) | median (%) | maximum (%) |
|:---|---:|---:|---:|---:|
"""


def mean_and_maximum(errors):
    sizes = [abs(error) for error in errors]
    return f"{statistics.mean(sizes):.2f} % on average and {max(sizes):.2f} % at worst"


def error_line(name, errors):
    sizes = [abs(error) for error in errors]
    return f"| {name} | {len(sizes)} | {statistics.mean(sizes):.2f} | {statistics.median(sizes):.2f} | {max(sizes):.2f} |"


def row_of(run, machine):
    """In which row of the README's table a validated run is; every run is in one."""
    with open(run["path"], encoding="utf-8") as file:
        content = json.load(file)
    config = content["config"]
    if run["host_bound"]:
        return "host-bound, all programs of pdl-run and machines"
    if not is_probed(run, content):
        return f"shapes that no probe had, {'fp32' if config['dtype'] == 'fp32' else 'tensor cores'}, {machine}"
    if config["strategy"] == "single" or config["gpus"] == 1:
        return f"one GPU, {machine}"
    if config["workers"] == "one":
        return "one thread for all GPUs (layer split, options A, B, C), all machines"
    if config["strategy"] == "pp" and config.get("dp", 1) == 1:
        return f"pipelines, {machine}"
    return f"data parallelism (DDP, DataParallel, replicas), {machine}"


@functools.cache
def validated_runs(pdl_sim, folder):
    paths = files_of(folder, "pdl")
    return json.loads(said(pdl_sim, "validate", *paths, "--noise", str(DRAWS), "--json", "-"))["runs"] if paths else []


def row_of_pytorch(run, machine):
    """The same of a run of PyTorch's own program."""
    with open(run["path"], encoding="utf-8") as file:
        config = json.load(file)["config"]
    if run["host_bound"]:
        return f"PyTorch's programs, host-bound, {machine}"
    if config["strategy"] == "pp" and config["workers"] != "one":
        return f"PyTorch's pipelines, {machine}"
    if config["strategy"] in ("ddp", "dp"):
        return f"PyTorch's DDP and DataParallel, {machine}"
    return f"PyTorch on one GPU, or by one thread on several, {machine}"


@functools.cache
def validated_runs_of_pytorch(pdl_sim, folder):
    paths = files_of(folder, "pytorch")
    return json.loads(said(pdl_sim, "validate", *paths, "--json", "-"))["runs"] if paths else []


@functools.cache
def widths_probed(profile):
    """(data type, width in, width out) of a profile's layers."""
    with open(os.path.join(ROOT, "data", profile, "profile.json"), encoding="utf-8") as file:
        return {(layer["dtype"], layer["in"], layer["out"]) for layer in json.load(file)["layers"] if "in" in layer}


def is_probed(run, content):
    """As the prediction says; where it has no word of it, by the widths of its layers."""
    if run.get("probed") is not None:
        return run["probed"]
    config = content["config"]
    layers = content["model"].get("layers") or [{"in": config["dim"], "out": config["dim"]}]
    probed = widths_probed(run["profile"])
    return all((config["dtype"], layer["in"], layer["out"]) in probed for layer in layers if "in" in layer)


def shapes_of(run):
    """In which row of the table of shapes a validated run is: (order, name)."""
    if run["host_bound"]:
        return 5, "host-bound"
    with open(run["path"], encoding="utf-8") as file:
        content = json.load(file)
    probed, fp32 = is_probed(run, content), content["config"]["dtype"] == "fp32"
    name = f"{'probed' if probed else 'not probed'}, {'fp32' if fp32 else 'tensor cores'}"
    return (0 if probed else 2) + (0 if fp32 else 1), name


def shapes_line(machine, name, runs):
    sizes = [abs(run["error_percent"]) for run in runs]
    bars = [run for run in runs if run.get("inside") is not None]
    inside = f"{100 * sum(run['inside'] for run in bars) / len(bars):.0f}" if bars else "-"
    half_width = f"{statistics.median(run['half_width_90_percent'] for run in bars):.2f}" if bars else "-"
    drawn = sum(run["predicted_p10_ms"] <= run["measured_ms"] <= run["predicted_p90_ms"] for run in runs)
    return f"| {machine} | {name} | {len(runs)} | {statistics.mean(sizes):.2f} | {statistics.median(sizes):.2f} | " \
           f"{max(sizes):.2f} | {inside} | {half_width} | {100 * drawn / len(runs):.0f} |"


def folders_of_runs():
    """(machine, folder): those of a machine's own runs, then those of other hosts with its GPUs."""
    for folder in sorted(glob.glob(os.path.join(ROOT, "data", "*"))):
        for runs in sorted(glob.glob(os.path.join(folder, "runs*"))):
            if runs.endswith("_pytorch"):
                continue
            name = os.path.basename(folder)
            host = re.search(r"runs_on_host_(\d+)$", runs)
            yield f"{name}, other host {host.group(1)}" if host else name, runs


def shapes_table(pdl_sim):
    lines = []
    for machine, folder in folders_of_runs():
        groups = {}
        for run in validated_runs(pdl_sim, folder):
            groups.setdefault(shapes_of(run), []).append(run)
        lines += [shapes_line(machine, key[1], groups[key]) for key in sorted(groups)]
    everything = [run for _, folder in folders_of_runs() for run in validated_runs(pdl_sim, folder)]
    lines.append(shapes_line("all", "all", everything))
    return SHAPES_HEAD.format(draws=DRAWS) + "\n".join(lines) + "\n"


def history_table():
    lines = []
    for machine, folder in folders_of_runs():
        for program, words in (("pdl", ""), ("pytorch", " of PyTorch")):
            dates = [environment_of(path)["date"] for path in files_of(folder, program)]
            key = os.path.relpath(folder, os.path.join(ROOT, "data")) + words
            if dates:
                lines.append(history_line(machine + words.replace(" of", ","), key, dates))
    return HISTORY_HEAD + "\n".join(lines) + "\n" + HISTORY_TAIL


def history_line(machine, key, dates):
    first, last = (date[:16].replace("T", " ") for date in (min(dates), max(dates)))
    if key not in HISTORY:
        raise SystemExit(f"accuracy_document.py: HISTORY: found no data/{key}, expected which rules are younger")
    until = last[11:] if first[:10] == last[:10] else last
    return f"| {machine} ({len(dates)}) | {first} to {until} | {HISTORY[key]} |"


@functools.cache
def matrix():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("matrix", os.path.join(ROOT, "tests", "gpu", "matrix"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("matrix", loader))
    loader.exec_module(module)
    return module


def predicted_before(folder):
    """The section of each file of predictions that were committed before their runs."""
    for path in sorted(glob.glob(os.path.join(ROOT, "data", folder, "matrix_predictions*.json"))):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        runs = {}
        for of_host in sorted(glob.glob(os.path.join(ROOT, "data", folder, "runs*")), reverse=True):
            runs |= matrix().measured_runs(of_host)  # of equal plans those of the profile's host, or the first other one
        # A plan that another seed had too may have been measured before.
        runs = {key: run for key, run in runs.items() if run["environment"]["date"] >= content.get("date", "")}
        rows = matrix().errors_of(runs, content["predictions"])
        if rows:
            yield BEFORE_HEAD.format(path=os.path.relpath(path, ROOT), seed=content["seed"],
                                     summary=matrix().summary_text(rows), table=matrix().table_text(rows[:10]))


def readme_table(pdl_sim):
    rows, pytorch, memory, elsewhere, hosts = {}, {}, [], [], 0
    for folder in sorted(glob.glob(os.path.join(ROOT, "data", "*"))):
        with open(os.path.join(folder, "profile.json"), encoding="utf-8") as file:
            environment = json.load(file)["environment"]
        machine = f"{environment['count']} x {environment['card'].removeprefix('NVIDIA ').split()[0]}"
        for run in validated_runs(pdl_sim, os.path.join(folder, "runs")):
            rows.setdefault(row_of(run, machine), []).append(run["error_percent"])
            memory += run["memory_error_percent"]
        for run in validated_runs_of_pytorch(pdl_sim, os.path.join(folder, "runs")):
            pytorch.setdefault(row_of_pytorch(run, machine), []).append(run["error_percent"])
            memory += run["memory_error_percent"]
        for other in folders_of_other_hosts(os.path.basename(folder)):
            found = validated_runs(pdl_sim, other)
            hosts += bool(found)
            elsewhere += found
    names = sorted(rows, key=lambda name: ("host-bound" in name, "one thread" in name))
    lines = [error_line(name, pytorch[name]) for name in sorted(pytorch, key=lambda name: "host-bound" in name)]
    lines += [error_line(name, rows[name]) for name in names]
    by_gpus = [run["error_percent"] for run in elsewhere if not run["host_bound"]]
    by_host = [run["error_percent"] for run in elsewhere if run["host_bound"]]
    return ERRORS_HEAD + "\n".join(lines) + f"""

Peak memory, of {len(memory)} GPUs in these runs, is off by {mean_and_maximum(memory)}. All of this is on the machines whose profiles
predict it. On {hosts} other hosts with the same GPUs ({len(elsewhere)} runs of `pdl-run`'s programs) the step time is off by {mean_and_maximum(by_gpus)},
and that of host-bound steps by {mean_and_maximum(by_host)}.

"""


def accuracy_text(pdl_sim):
    accuracy = HEAD.rstrip("\n") + "\n" + shapes_table(pdl_sim) + history_table()
    for folder, title, facts, summary, table in machine_tables(pdl_sim):
        accuracy += f"\n## {title} (`data/{folder}`)\n\n{facts}\n\n{summary}\n\n{table}\n"
        for section in predicted_before(folder):
            accuracy += section
        accuracy += bound_table(pdl_sim, folder)
        peers = peer_table(os.path.join(folder, "peers_*.json"))
        accuracy += PEERS_HEAD + peers if peers else ""
        accuracy += pytorch_tables(pdl_sim, folder)
        accuracy += tables_of_pytorch(pdl_sim, os.path.join(ROOT, "data", folder, "runs"))
        calibrated = facts.split("calibrated ")[1]
        for section in other_hosts(pdl_sim, folder, calibrated):
            accuracy += section
    return accuracy + NOTES


def replaced(text, marks, inside):
    before, rest = text.split(marks[0], 1)
    return before + marks[0] + "\n" + inside + marks[1] + rest.split(marks[1], 1)[1]


def with_outputs(pdl_sim, name, text):
    """The text, each output anew."""
    done, *rest = text.split(OUTPUT[0])
    for part in rest:
        command = done.rstrip().rsplit("\n", 1)[-1].split("#")[0].split()
        if command[:1] != ["build/sim/pdl-sim"]:
            raise SystemExit(f"{name}: above '{OUTPUT[0]}': '{' '.join(command)}', expected a command of build/sim/pdl-sim")
        if WRITES.search(" ".join(command)):
            raise SystemExit(f"{name}: above '{OUTPUT[0]}': '{' '.join(command)}', expected a command that writes no file")
        shown = said(pdl_sim, *command[1:]).splitlines()
        done += OUTPUT[0] + "\n\n" + "".join(f"    {line}".rstrip() + "\n" for line in shown) + "\n" + OUTPUT[1]
        done += part.split(OUTPUT[1], 1)[1]
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True, type=os.path.abspath)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pdl_sim = arguments.pdl_sim
    accuracy = os.path.join(ROOT, "docs", "accuracy.md")
    wanted = {accuracy: accuracy_text(pdl_sim)}
    for path in [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]:
        if path == accuracy:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if ACCURACY[0] in text:
            text = replaced(text, ACCURACY, readme_table(pdl_sim))
        wanted[path] = with_outputs(pdl_sim, os.path.relpath(path, ROOT), text)
    stale = []
    for path, text in wanted.items():
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if old == text:
            continue
        stale.append(os.path.relpath(path, ROOT))
        if not arguments.check:
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".tmp", path)
    for path in stale:
        stale_text = "does not say what data/ and the programs say; run tests/accuracy_document.py"
        print(f"{path}: {stale_text if arguments.check else 'written'}")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
