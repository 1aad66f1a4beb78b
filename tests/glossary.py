#!/usr/bin/env python3
"""docs/glossary.md has the title of every column that people are shown, unless it is the name of a setting.

  tests/glossary.py --pdl-sim build/sim/pdl-sim    exit code 1: a line for each fault

    * **p25**, **p75**: a quarter of ...     an entry: its terms, one sentence; entries are in alphabetical order

Titles come from the Markdown of the commands below; a unit in parentheses and a "predicted" or "measured" beside a title
are no part of it.
"""

import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = "data/h200x2/runs_on_host_2"
COMMANDS = [
    "profiles",
    "schedules",
    "--gpus 4 --depth 8 --schedule 1f1b --explain",
    "--gpus 4 --depth 8 --schedule 1f1b --recompute 1 --explain",
    "--gpus 2 --depth 8 --strategy ddp --explain",
    "sweep --gpus 1,2 --depth 8 --strategy ddp --batch 64 --memory 40GiB",
    "sweep --gpus 2 --depth 8 --schedule gpipe,1f1b",
    "sweep --model gpt2 --layers 2 --sequence 256,512 --batch 4",
    "plan --gpus 2 --depth 8 --batch 30 --memory 4GiB",
    "scenario --all",
    f"validate {RUNS}/ddp_gpus1_mlp2x1024_batch512_mb1_fp32_sgd_nccl_process.json "
    f"{RUNS}/mp_gpus2_mlp24x8192_batch2048_mb1_fp32_sgd_copy_one.json",
    f"compare {RUNS}/pp-gpipe_gpus2_mlp8x8192_batch2048_mb4_fp32_sgd_copy_one.json "
    f"{RUNS}/pp-naive_gpus2_mlp8x8192_batch2048_mb4_fp32_sgd_copy_one.json --explain",
]
ENTRY = re.compile(r"\* (\*\*[^*]+\*\*(?:, \*\*[^*]+\*\*)*): (.*)")


def titles(markdown):
    """Of each table: the line above its rule, cell by cell."""
    lines = markdown.splitlines()
    for above, line in zip(lines, lines[1:]):
        if re.fullmatch(r"\|(:?-+:?\|)+", line):
            for cell in re.split(r"(?<!\\)\|", above.strip("|")):
                title = re.sub(r"\s*\([^)]*\)$", "", cell.strip().replace("\\|", "|"))
                yield re.sub(r"^(predicted|measured) (?!again)|, (predicted|measured)$", "", title)


def entries(glossary):
    """(terms, sentence) of each entry."""
    for line in glossary.splitlines():
        match = ENTRY.fullmatch(line)
        if match:
            yield re.findall(r"\*\*([^*]+)\*\*", match[1]), match[2]


def faults_of_entries(glossary):
    """Entries out of order, entries that are not one sentence, lines that begin like entries and are none."""
    before = ""
    for terms, sentence in entries(glossary):
        if terms[0].lower() < before:
            yield f"'{terms[0]}' stands after '{before}', expected alphabetical order"
        before = terms[0].lower()
        if not sentence.endswith(".") or ". " in sentence:
            yield f"'{terms[0]}': found '{sentence}', expected one sentence"
    for line in glossary.splitlines():
        if line.startswith("*") and not ENTRY.fullmatch(line):
            yield f"found '{line}', expected '* **term**: a sentence.'"


def self_test():
    shown = "| a (ms) | A, measured | predicted step (ms) | predicted again | of \\| 1 |\n|---:|:---|---:|---|---|\n| 1 | 2 |\n"
    assert list(titles(shown)) == ["a", "A", "step", "predicted again", "of | 1"], list(titles(shown))
    good = "* **a**, **c**: one.\n* **B**: two.\n"
    assert list(faults_of_entries(good)) == []
    assert [terms for terms, _ in entries(good)] == [["a", "c"], ["B"]]
    for bad in ("* **b**: two.\n* **a**: one.\n", "* **a**: one. Two.\n", "* **a**: one\n", "* a: one.\n"):
        assert len(list(faults_of_entries(bad))) == 1, bad


def main():
    self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True, type=os.path.abspath)
    pdl_sim = parser.parse_args().pdl_sim
    with open(os.path.join(ROOT, "docs", "glossary.md"), encoding="utf-8") as file:
        glossary = file.read()
    with open(os.path.join(ROOT, "docs", "settings.md"), encoding="utf-8") as file:
        known = set(re.findall(r"`--([\w-]+)", file.read()))
    known.update(term for terms, _ in entries(glossary) for term in terms)
    faults = list(faults_of_entries(glossary))
    environment = {name: value for name, value in os.environ.items() if name != "PDL_DATA"}
    for command in COMMANDS:
        shown = subprocess.run([pdl_sim, *command.split(), "--markdown", "-"], capture_output=True, encoding="utf-8", check=True,
                               cwd=ROOT, env=environment).stdout
        found = [title for title in titles(shown) if title]
        if not found:
            faults.append(f"pdl-sim {command}: found no table, expected titles of columns")
        faults += [f"no entry '{title}', a column of: pdl-sim {command}" for title in sorted(set(found) - known)]
    for fault in dict.fromkeys(faults):
        print(f"docs/glossary.md: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
