#!/usr/bin/env python3
"""Every C++ file is as clang-format 19.1.7 writes it, and no line is longer than 120 columns, comments included.

    tests/format.py --cache build/all          checks, and says what differs
    tests/format.py --cache build/all --fix    formats the files in place

Another version of clang-format formats differently: this one comes from pip, once, into the cache folder, unless the
python3 that runs this has it. Exit code: 0 fine, 1 not, 77 (skipped) if there is neither that version nor a pip that can
fetch it.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("sim", "runtime", "calibrate", "python", "tests")
VERSION = "19.1.7"
COLUMNS = 120
SKIPPED = 77


def program_in(folder):
    """clang-format of the wheel that was unpacked in `folder`, if it is of that version."""
    path = pathlib.Path(folder) / "clang_format/data/bin/clang-format"
    if not path.is_file():
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    return path if f"version {VERSION}" in said else None


def find_program(cache):
    for folder in [cache / "clang-format", *sys.path]:
        if program := program_in(folder):
            return program
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--root-user-action=ignore", "--upgrade", "--target", cache / "clang-format", f"clang-format=={VERSION}"],
                   capture_output=True)
    return program_in(cache / "clang-format")


def long_lines(files):
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > COLUMNS:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns, expected at most {COLUMNS}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", required=True, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--fix", action="store_true")
    arguments = parser.parse_args()
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".hpp"))
    program = find_program(arguments.cache)
    if not program:
        print(f"test skipped: no clang-format {VERSION}, and no pip that can fetch it")
        return SKIPPED
    if arguments.fix:
        subprocess.run([program, "-i", *files], check=True)
    differ = subprocess.run([program, "--dry-run", "--Werror", "--ferror-limit=1", *files], capture_output=True, text=True)
    problems = [line.replace(f"{ROOT}{os.sep}", "") for line in differ.stderr.splitlines() if ": error: " in line]
    problems += long_lines(files)
    print("\n".join(problems))
    print(f"{len(files)} files, {len(problems)} lines that differ" + (": tests/format.py --fix" if problems else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
