#!/usr/bin/env python3
"""The command blocks of README.md and docs/*.md do what they say, one after another, on a clean copy of the tree.

    tests/document_commands.py --build build/all          runs them with the programs of that build
    tests/document_commands.py --build build/all --list   says what would be done with each line

A block is a paragraph indented by four spaces, or fenced. Each is one of
  commands   its lines begin with a program, see PROGRAM: run with bash, in order, in the copy; build/sim and build/all are
             the given build. A line ends well with exit code 0, or with N where the document says "# exit code N".
  text       a drawing, a file's contents: JSON, or named in TEXT; what tests/accuracy_document.py writes between its marks
and anything else is a fault of the document, so is a block that mixes both. A command is left out only by LEFT_OUT, or
because it reads a file of a line that was; it is skipped where this machine lacks what NEEDS asks for. Both are printed.
Links to files and pictures of the project lead to files that are there.

Exit code: 0 fine, 1 not, 77 (skipped) if all lines were.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 300
SKIPPED = 77

# What a command begins with, behind variables: a path, or one of these programs.
PROGRAM = re.compile(r"(\w+=\S* )*(\.?[\w~./-]*/[\w.-]+|cmake|ctest|echo|git|mpirun|srun|torchrun|python3|pdl-\w+)( |$)")

# Blocks that are no commands: document, how the first line begins.
TEXT = [
    ("docs/design.md", "flags or scenario.json"),
    ("docs/design.md", "--gpus 6 --dp 2"),
    ("docs/formats-run.md", "a.json: "),
    ("docs/formats-profile.md", '"products": {'),
    ("docs/traces.md", "select category"),
    ("docs/traces.md", "source <("),
    ("docs/formats-run.md", "pp-1f1b_gpus4"),
    ("docs/predictions_eight_gpus.md", "row  strategy"),
    ("docs/predictions_eight_gpus.md", "replicas: copies"),
]

# Commands that are not run: pattern, reason.
LEFT_OUT = [
    (r"^\./bootstrap ", "builds everything, as CI does"),
    (r"^build/all/pdl-run (?!.*--device cpu)", "needs GPUs"),
    (r"^build/all/pdl-calibrate (?!.*--(device cpu|from) )", "needs GPUs"),
    (r"^build/all/pdl-calibrate --from \S+ --(gpus|python) ", "needs GPUs: measures a plan's shapes, or Python's times"),
    (r"^tests/gpu/check$", "needs GPUs; on CPU workers a test of its own runs it"),
    (r"^tests/gpu/matrix ", "needs GPUs; on CPU workers a test of its own runs it"),
    (r"build/clang", "builds it with another compiler"),
    (r"bench_engine ", "takes minutes; small runs of it are tests of their own"),
    (r"pip install \.", "builds the Python module; a test of its own does"),
    (r"tests/fuzz/fuzz\.py ", "builds by clang++ and runs for minutes; tests of their own run every fuzzer"),
    (r"all_reduce_perf ", "needs 16 GPUs, and nccl-tests"),
    (r"<[a-z].*>", "has a place to fill in"),
]

# What a machine must have: pattern of commands, a test of it in the copy, its name.
NEEDS = [
    (r"build/all/", "test -x build/all/pdl-run", "programs with LibTorch (build/all)"),
    (r"--device cpu .*--strategy ddp", "grep -q '^PDL_GLOO_INCLUDE:PATH=/' build/all/CMakeCache.txt", "a build with Gloo (libgloo-dev)"),
    (r"^mpirun ", "mpirun --version | grep 'Open MPI'", "Open MPI"),
    (r"torch\.distributed\.run", "PYTHONPATH=~/.cache/pdl/torch-2.11.0 python3 -c 'import torch.distributed.run'",
     "a torch for python3, its own or that of ./bootstrap all"),
]

WRITTEN = re.compile(r"(?:--(?:json|out|samples|schedule-csv|csv|html|trace|markdown)[ =]|> ?)([\w./-]+)")
MARKED = re.compile(r"<!-- (\w+): written by .*?<!-- /\1 -->", re.DOTALL)


def paragraphs(text):
    """(number of the first line, its lines without the indentation, language of the fence or '')"""
    text = MARKED.sub(lambda marked: "\n" * marked[0].count("\n"), text)
    block, start, fence = [], 0, None
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("```"):
            if fence is not None and block:
                yield start, block, fence
            fence, block, start = (line[3:].strip() if fence is None else None), [], number + 1
        elif fence is not None:
            block.append(line)
        elif line.startswith("    "):
            start = start if block else number
            block.append(line[4:])
        else:
            if block:
                yield start, block, ""
            block = []


def joined(lines):
    """Lines that end in a backslash with those that follow."""
    return "\n".join(lines).replace("\\\n", " ").split("\n")


def is_comment(line):
    return not line.strip() or line.lstrip().startswith("#")


def is_text(document, lines, language):
    return (language not in ("", "sh", "bash", "console") or lines[0].lstrip().startswith("{") or
            any(document == name and lines[0].lstrip().startswith(start) for name, start in TEXT))


def commands_of(document, text):
    """(place, command) of each line, or (place, None) where it is no command and should be."""
    for start, lines, language in paragraphs(text):
        if is_text(document, lines, language):
            continue
        for offset, line in enumerate(joined(lines)):
            if not is_comment(line):
                yield f"{document}:{start + offset}", line.strip() if PROGRAM.match(line) else None


def broken_links(path):
    """(number of the line, target) of each link and picture of a document that leads to no file; fragments are not looked at."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for target in re.findall(r"\]\(([^)#\s]+)", line):
            if "://" not in target and not (path.parent / target).exists():
                yield number, target


class Run:
    """The lines of all documents, in one copy of the tree."""

    def __init__(self, folder, only_list):
        self.folder, self.only_list = folder, only_list
        self.missing = {}  # file -> the place that would have written it
        self.ran = self.failed = 0
        ignored = ("PDL_DATA", "COLUMNS", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "DESTDIR", "BASH_ENV", "CDPATH")
        self.environment = {name: value for name, value in os.environ.items() if name not in ignored}

    def bash(self, command, **more):
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, encoding="utf-8", errors="replace", **more)

    def why_not(self, command):
        for pattern, reason in LEFT_OUT:
            if re.search(pattern, command):
                return f"left out, {reason}"
        for word in re.split(r"[\s=<>]+", command):
            if word in self.missing and not (self.folder / word).exists():
                return f"left out, needs {word} of {self.missing[word]}"
        for pattern, test, name in NEEDS:
            if re.search(pattern, command) and self.bash(test).returncode:
                return f"skipped: needs {name}"
        return None

    def line(self, place, command):
        if command is None:
            self.failed += 1
            print(f"{place}: neither a command (PROGRAM) nor named as text (TEXT)")
            return
        reason = self.why_not(command)
        if reason:
            self.missing.update({name: place for name in WRITTEN.findall(command)})
            print(f"{place}: {reason}: {command}")
        elif self.only_list:
            print(f"{place}: run: {command}")
        else:
            self.execute(place, command)

    def execute(self, place, command):
        self.ran += 1
        expected = re.search(r"#.*exit code (\d+)", command)
        start = time.monotonic()
        try:
            done = self.bash(command, timeout=LIMIT_S)
            code, said = done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
        except subprocess.TimeoutExpired:
            code, said = "none", f"still running after {LIMIT_S} s"
        right = code == (int(expected[1]) if expected else 0)
        self.failed += not right
        print(f"{place}: {'ran' if right else 'FAILED'}, {time.monotonic() - start:.1f} s: {command}", flush=True)
        if not right:
            print(f"  exit code {code}\n{said}")


def copy_of_tree(folder, build):
    """What git knows, or all but builds; the builds are links."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z"], capture_output=True, encoding="utf-8")
    names = listed.stdout.split("\0") if listed.returncode == 0 else [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not {"build", ".git"} & set(path.relative_to(ROOT).parts)]
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / "build").mkdir(exist_ok=True)
    (folder / "build/sim").symlink_to(build)
    if (build / "pdl-run").exists():
        (folder / "build/all").symlink_to(build)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary).resolve()
        copy_of_tree(folder, arguments.build)
        run = Run(folder, arguments.list)
        for path in [folder / "README.md", *sorted((folder / "docs").glob("*.md"))]:
            for place, command in commands_of(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")):
                run.line(place, command)
            for number, target in broken_links(path):
                run.failed += 1
                print(f"{path.relative_to(folder)}:{number}: a link to '{target}', expected a file")
    print(f"{run.ran} commands ran, {run.failed} faults")
    if run.failed:
        return 1
    return 0 if run.ran or arguments.list else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
