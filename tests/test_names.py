#!/usr/bin/env python3
"""Names of test cases that ctest cannot run: exit code 1, each with its file.

CMake's lists end an entry at a semicolon: catch_discover_tests makes two tests of such a name, neither of which runs
anything, and both pass. Brackets keep semicolons together, a backslash hides one. Two of one name are one test.

    tests/test_names.py            looks at tests/
    tests/test_names.py FOLDER     looks there
"""

import pathlib
import re
import sys

TEST_CASE = re.compile(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"')  # clang-format wraps a long one


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    files, found = {}, 0
    for path in sorted(folder.rglob("*.cpp")):
        for name in TEST_CASE.findall(path.read_text(encoding="utf-8")):
            files.setdefault((path.relative_to(folder).parts[0], name), []).append(path)
            if re.search(r"[;\[\]\\]|^-", name):
                found += 1
                print(f'{path}: "{name}": a semicolon, bracket or backslash in the name of a test, or a dash before it')
    for (_, name), paths in files.items():
        if len(paths) > 1:
            found += 1
            print(f'{paths[0]}, {paths[1]}: "{name}" is the name of both')
    print(f"{len(files)} test cases, {found} with names that ctest cannot run")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
