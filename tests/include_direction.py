#!/usr/bin/env python3
"""Holds the arrows between rooms: which folder may include which.

    tests/include_direction.py [ROOT]

Reads every #include "..." of the C++ files under sim/, runtime/, calibrate/ and tests/, and prints
FILE:LINE for each that goes against ALLOWED below, names no file, or is not written from the project's root.
Also refuses folders whose name says nothing (common, utils, manager, helper), headers of Torch, CUDA, NCCL or Gloo
in sim/ and calibrate/fit, and source folders that ALLOWED does not know.
Exit 0: all arrows hold. Exit 1: some do not. Exit 2: nothing to read under ROOT.
"""
import re
import sys
from pathlib import Path

# A room may include itself, and the rooms named here. Longest matching prefix wins.
SIM = ["sim/spec", "sim/plan", "sim/cost", "sim/engine", "sim/timeline", "sim/search", "sim/report"]
ALLOWED = {
    "sim/spec": [],
    "sim/plan": ["sim/spec"],
    "sim/cost": ["sim/plan", "sim/spec"],
    "sim/engine": ["sim/plan", "sim/cost", "sim/spec", "sim/timeline"],
    "sim/timeline": ["sim/plan", "sim/spec"],
    "sim/search": ["sim/spec"],
    "sim/report": ["sim/timeline", "sim/plan", "sim/spec", "sim/cost"],
    "sim/tool": SIM,
    "runtime": ["sim/spec", "sim/plan", "sim/timeline"],
    "runtime/measure": ["runtime", "sim/spec", "sim/plan", "sim/timeline", "sim/report"],
    "runtime/tool": ["runtime", "sim/spec", "sim/plan", "sim/timeline", "sim/report", "sim/tool/flags.hpp"],
    "calibrate/fit": ["sim/spec", "sim/plan", "sim/cost", "sim/timeline"],
    "calibrate/probe": ["runtime", "calibrate/fit"] + SIM,
    "calibrate/tool": ["calibrate", "runtime"] + SIM,
    "tests": ["sim", "runtime", "calibrate"],
}
# Single files that join rooms, and what they may include beyond their room.
ALLOWED_FOR_FILE = {
    "sim/predict/predict.cpp": ["sim/engine"],  # plan -> price -> run -> result, for every report that predicts
    "sim/predict/find_order.cpp": ["sim/engine", "sim/search"],  # the same for every order that a search tries
    # The programs tell the recorder when a task begins and ends.
    "runtime/program/autograd_program.cpp": ["runtime/trace/span_recorder.hpp"],
    "runtime/executor/cpu_worker.cpp": ["runtime/trace/span_recorder.hpp"],
    "runtime/executor/cuda_worker.cpp": ["runtime/trace/span_recorder.hpp"],
}
ROOTS = ("sim", "runtime", "calibrate", "tests")
WITHOUT_TORCH = ("sim", "calibrate/fit")
TORCH = re.compile(r"^(torch|ATen|c10|caffe2|gloo|kineto|cuda|nccl|cupti)")
NAMES_THAT_SAY_NOTHING = {"common", "util", "utils", "manager", "managers", "helper", "helpers", "misc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def inside(path, room):
    return path == room or path.startswith(room + "/")


def room_of(path):
    """The room of ALLOWED that holds this path, or None."""
    rooms = [room for room in ALLOWED if inside(path, room)]
    return max(rooms, key=len) if rooms else None


def violations_of_line(source, bracket, target, root):
    room = room_of(source)
    if bracket == "<":
        if TORCH.match(target) and any(inside(source, folder) for folder in WITHOUT_TORCH):
            yield f'includes <{target}>, but {room} is built without Torch and CUDA'
        return
    if not (root / target).is_file():
        yield f'includes "{target}", which is no file seen from the project root'
        return
    target_room = room_of(target)
    allowed = ALLOWED[room] + ALLOWED_FOR_FILE.get(source, [])
    if target_room is None:
        yield f'includes "{target}", which is in no room'
    elif not inside(target, room) and not any(inside(target, folder) for folder in allowed):
        may = ", ".join(ALLOWED[room]) or "nothing"
        yield f'includes "{target}", but {room} may include only itself and {may}'


def violations_of_file(path, root):
    source = path.relative_to(root).as_posix()
    if room_of(source) is None:
        yield f"{source}:1: is in no room that tests/include_direction.py knows"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            for problem in violations_of_line(source, match[1], match[2], root):
                yield f"{source}:{number}: {problem}"


def check(root):
    """(number of files read, list of violations)"""
    files, problems = [], []
    for top in ROOTS:
        for path in sorted((root / top).rglob("*")):
            if path.is_dir() and path.name.lower() in NAMES_THAT_SAY_NOTHING:
                problems.append(f"{path.relative_to(root).as_posix()}: a folder is named for what it holds, not '{path.name}'")
            if path.suffix in (".hpp", ".cpp", ".h", ".cu", ".cuh"):
                files.append(path)
    for path in files:
        problems += violations_of_file(path, root)
    return len(files), problems


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    count, problems = check(root)
    for problem in problems:
        print(problem)
    if count == 0:
        print(f"no C++ file under {root}/{{{','.join(ROOTS)}}}")
        return 2
    print(f"{count} files, {len(problems)} against the direction of includes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
