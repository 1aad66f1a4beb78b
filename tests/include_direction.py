#!/usr/bin/env python3
"""Holds the arrows between rooms: which folder may include which.

    tests/include_direction.py [ROOT]

Reads every #include of the C++ files under sim/, runtime/, calibrate/, python/ and tests/, and prints FILE:LINE for each that
goes against ALLOWED below, names no file, or is not written from the project's root. Also refused: folders that ALLOWED
does not know, folders whose name says nothing (common, utils, manager, helper), what ALLOWED permits and no file needs,
headers of Torch, CUDA, NCCL or Gloo where nothing is linked to them, the parser of command lines outside the programs,
a folder of tests that mirrors no folder of sources, and a test that neither is named for a source file
(tests/sim/plan/plan_test.cpp for sim/plan/plan.cpp) nor says in its first line what it tests.
Exit 0: all arrows hold. Exit 1: some do not. Exit 2: nothing to read under ROOT.
"""
import re
import sys
from pathlib import Path

# The trees and the rooms of each, in their order: a room includes rooms before it only, those that ALLOWED names.
ORDER = {
    "sim": "io model spec plan timeline cost engine memory run predict study course report library tool".split(),
    "runtime": "device comm model trace executor program measure pytorch tool".split(),
    "calibrate": "fit probe tool".split(),
}
# What a room may include beside itself: rooms, or single files. No more than its files need: what none of them needs is
# refused too, so a line is added here with the first file that needs it.
ALLOWED = {
    "sim/io": "",
    "sim/model": "sim/io",
    "sim/spec": "sim/io sim/model",
    "sim/plan": "sim/io sim/model sim/spec",
    "sim/timeline": "sim/plan",
    "sim/cost": "sim/io sim/model sim/spec sim/plan",
    # Of costs the values, not where they come from.
    "sim/engine": "sim/io sim/plan sim/timeline sim/cost/task_cost.hpp sim/cost/host_pauses.hpp",
    "sim/memory": "sim/model/inner_layers.hpp sim/plan",
    "sim/run": "sim/io sim/spec sim/plan sim/timeline sim/cost/card_limits.hpp sim/cost/environment.hpp "
               "sim/cost/error_bar.hpp sim/memory",
    "sim/predict": "sim/io sim/spec sim/plan sim/timeline sim/cost sim/engine sim/memory sim/run",
    "sim/study": "sim/io sim/spec sim/cost sim/run sim/predict",
    "sim/course": "sim/io sim/run sim/predict/host_bound.hpp sim/study",
    "sim/report": "sim/io sim/spec sim/run sim/predict/host_bound.hpp sim/predict/other_program.hpp sim/study "
                  "sim/course",
    "sim/library": "sim/io sim/spec sim/cost sim/run sim/predict sim/study",
    "sim/tool": "sim/io sim/spec sim/cost sim/run sim/predict sim/study sim/report",
    "runtime/device": "sim/io sim/plan",
    "runtime/comm": "sim/io sim/spec sim/plan",
    "runtime/model": "runtime/device sim/io sim/model sim/spec sim/plan",
    "runtime/trace": "runtime/device sim/io sim/plan sim/timeline",
    "runtime/executor": "runtime/comm runtime/trace sim/io sim/plan",
    "runtime/program": "runtime/device runtime/comm runtime/model runtime/trace runtime/executor sim/io sim/plan",
    "runtime/measure": "runtime/device runtime/comm runtime/trace runtime/program sim/io sim/run",
    "runtime/pytorch": "runtime/comm sim/io",
    "runtime/tool": "runtime/device runtime/comm runtime/model runtime/program runtime/measure runtime/pytorch "
                    "sim/io sim/spec sim/plan/backward_parts.hpp sim/plan/pytorch_pipeline_step.hpp sim/run "
                    "sim/study/scenario.hpp sim/report sim/tool/flags.hpp sim/tool/output_flags.hpp "
                    "sim/tool/program_texts.hpp sim/tool/screen.hpp",
    "calibrate/fit": "sim/io sim/cost",
    "calibrate/probe": "calibrate/fit runtime/device runtime/comm runtime/model runtime/trace runtime/program "
                       "runtime/measure/environment.hpp runtime/pytorch sim/io sim/model sim/spec sim/plan sim/cost "
                       "sim/memory/memory.hpp",
    "calibrate/tool": "calibrate/fit calibrate/probe runtime/comm/waiting.hpp sim/io sim/spec sim/report "
                      "sim/tool/flags.hpp sim/tool/program_texts.hpp",
    "python": "sim/library",
    "tests/sim": "sim tests/support tests/oracle",
    "tests/runtime": "sim runtime tests/support",
    "tests/calibrate": "sim runtime calibrate tests/support",
    "tests/gpu": "sim runtime tests/support",
    "tests/support": "sim runtime",
    "tests/bench": "sim tests/support",
    "tests/fuzz": "sim calibrate/fit tests/support",
    "tests/oracle": "sim",  # the slow way to the same answer
}
# Whole files rather than rooms: nothing of the project in them.
FILES_OF_NO_ROOM = ("runtime/torch_precompiled.hpp", "tests/install_project/main.cpp")
ROOTS = (*ORDER, "python", "tests")
# What mirrors no folder of sources: what tests share, and what is no unit test.
OTHER_TESTS = {"bench", "fuzz", "golden", "gpu", "install_project", "oracle", "peers", "python", "support"}
TORCH = re.compile(r"^(torch|ATen|c10|caffe2|gloo|kineto|cuda|nccl|cupti)")
WITHOUT_TORCH = ("sim", "python", "calibrate/fit", "tests/sim", "tests/calibrate/fit")
COMMAND_LINES = re.compile(r"^CLI/")
PROGRAMS = ("sim/tool", "runtime/tool", "calibrate/tool", "tests/fuzz")
NAMES_THAT_SAY_NOTHING = {"common", "util", "utils", "manager", "managers", "helper", "helpers", "misc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """The room of ALLOWED that holds this path, or None."""
    room = "python" if inside(path, "python") else "/".join(path.split("/")[:2])
    return room if room in ALLOWED else None


def permission(room, target):
    """What of ALLOWED lets a file of this room include the target, or None."""
    return next((entry for entry in [room, *ALLOWED[room].split()] if inside(target, entry)), None)


def problem_of_system_header(source, target):
    if TORCH.match(target) and any(inside(source, folder) for folder in WITHOUT_TORCH):
        return f"includes <{target}>, but {room_of(source)} is built without Torch and CUDA"
    if COMMAND_LINES.match(target) and not any(inside(source, folder) for folder in PROGRAMS):
        return f"includes <{target}>, but only {', '.join(PROGRAMS)} read command lines"
    return None


def problem_of_line(source, target, root, needed):
    room = room_of(source)
    if not (root / target).is_file():
        return f'includes "{target}", which is no file seen from the project root'
    if target in FILES_OF_NO_ROOM:
        return None
    if room_of(target) is None:
        return f'includes "{target}", which is in no room'
    entry = permission(room, target)
    needed.add((room, entry))
    if entry is None:
        return f'includes "{target}", but {room} may include only itself and {ALLOWED[room] or "nothing"}'
    return None


def problems_of_file(path, root, needed):
    source = path.relative_to(root).as_posix()
    if source in FILES_OF_NO_ROOM:
        return
    if room_of(source) is None:
        yield f"{source}:1: is in no room that tests/include_direction.py knows"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        problem = problem_of_system_header(source, match[2]) if match[1] == "<" else \
            problem_of_line(source, match[2], root, needed)
        if problem:
            yield f"{source}:{number}: {problem}"


def problem_of_test(path, root):
    source = path.relative_to(root / "tests").as_posix().removesuffix("_test.cpp")
    named_for_a_file = any((root / f"{source}{suffix}").is_file() for suffix in (".cpp", ".hpp"))
    if named_for_a_file or path.read_text(encoding="utf-8").startswith("// "):
        return None
    return f"tests/{source}_test.cpp:1: there is no {source}.cpp, and the first line does not say what is tested"


def problems_of_folder(path, root):
    folder = path.relative_to(root).as_posix()
    if path.name.lower() in NAMES_THAT_SAY_NOTHING:
        yield f"{folder}: a folder is named for what it holds, not '{path.name}'"
    if folder.startswith("tests/") and folder.split("/")[1] not in OTHER_TESTS and path.name != "__pycache__":
        source = folder.removeprefix("tests/")
        if not (root / source).is_dir():
            yield f"{folder}: tests mirror the sources, and there is no folder {source}"


def check(root):
    """(number of files read, list of problems, set of (room, entry of ALLOWED that one of its files needs))"""
    files, problems, needed = [], [], set()
    for top in ROOTS:
        for path in sorted((root / top).rglob("*")):
            if path.is_dir():
                if not any(child.is_file() for child in path.rglob("*")):
                    continue  # left behind by files that moved; git does not keep it
                problems += problems_of_folder(path, root)
            elif path.suffix in (".hpp", ".cpp", ".h", ".cu", ".cuh"):
                files.append(path)
    for path in files:
        problems += problems_of_file(path, root, needed)
        if path.name.endswith("_test.cpp") and (problem := problem_of_test(path, root)):
            problems.append(problem)
    return len(files), problems, needed


def problems_of_table():
    """ALLOWED itself keeps to ORDER: each room of ORDER has a line, and names in it only what is before."""
    rooms = [f"{tree}/{room}" for tree in ORDER for room in ORDER[tree]]
    for room in rooms:
        if room not in ALLOWED:
            yield f"tests/include_direction.py: {room} has no line in ALLOWED"
    for room in ALLOWED:
        if room not in rooms and room != "python" and not room.startswith("tests/"):
            yield f"tests/include_direction.py: {room} is not in ORDER"
        for entry in ALLOWED[room].split() if room in rooms else ():
            if room_of(entry) not in rooms[:rooms.index(room)]:
                yield f"tests/include_direction.py: {room} may not include {entry}, which is not before it in ORDER"


def needless(needed):
    """What ALLOWED permits and no file needs."""
    for room, allowed in ALLOWED.items():
        for entry in allowed.split():
            if (room, entry) not in needed and not room.startswith("tests/"):
                yield f"tests/include_direction.py: {room} may include {entry}, and no file of it does"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    count, problems, needed = check(root)
    if count == 0:
        print(f"no C++ file under {root}/{{{','.join(ROOTS)}}}")
        return 2
    problems += [*problems_of_table(), *needless(needed)]
    for problem in problems:
        print(problem)
    print(f"{count} files, {len(problems)} against the direction of includes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
