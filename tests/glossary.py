#!/usr/bin/env python3
"""docs/glossary.md has every head of a table that people are shown, or it is the name of a setting.

  tests/glossary.py --pdl-sim build/sim/pdl-sim    exit code 1: a line for each head that is in neither

Heads come from the Markdown of the commands below; units in parentheses are no part of them.
"""

import argparse
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = [
    "profiles",
    "schedules",
    "--gpus 4 --depth 8 --schedule 1f1b",
    "sweep --gpus 1,2 --depth 8 --strategy ddp --batch 64",
    "sweep --gpus 2 --depth 8 --schedule gpipe,1f1b",
    "scenario scenarios/hw3_4_more_gpus.json scenarios/hw1_5a_artificial_delay.json scenarios/hw2_1_amp_accumulation.json",
    "validate " + " ".join(sorted(glob.glob("data/h200x2/runs/ddp*batch512*.json", root_dir=ROOT))),
]


def heads(markdown):
    """Of each table: the line above its rule, cell by cell, without units."""
    lines = markdown.splitlines()
    for above, line in zip(lines, lines[1:]):
        if re.fullmatch(r"\|(:?-+:?\|)+", line):
            for cell in re.split(r"(?<!\\)\|", above.strip("|")):
                yield re.sub(r"\s*\([^)]*\)$", "", cell.strip().replace("\\|", "|"))


def main():
    assert list(heads("| a (ms) | b \\| c |\n|---:|:---|\n| 1 | 2 |\n")) == ["a", "b | c"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdl-sim", required=True, type=os.path.abspath)
    pdl_sim = parser.parse_args().pdl_sim
    known = set()
    for name, pattern in (("glossary.md", r"\*\*([^*]+)\*\*"), ("settings.md", r"`--([\w-]+)")):
        with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
            known |= set(re.findall(pattern, file.read()))
    missing, seen = {}, 0
    environment = {name: value for name, value in os.environ.items() if name != "PDL_DATA"}
    for command in COMMANDS:
        shown = subprocess.run([pdl_sim, *command.split(), "--markdown", "-"], capture_output=True, encoding="utf-8", check=True,
                               cwd=ROOT, env=environment).stdout
        for head in heads(shown):
            seen += 1
            if head and head not in known:
                missing[head] = command
    for head, command in sorted(missing.items()):
        print(f"docs/glossary.md: no '**{head}**', a head of: pdl-sim {command}")
    if seen == 0:
        print("tests/glossary.py: found no heads of tables, expected some")
    return 1 if missing or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
