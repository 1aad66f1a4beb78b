#!/usr/bin/env python3
"""The Python module: a wheel is built from the checkout by pip, installed into a folder of its own, and tested there.

    tests/python_module.py --build build/sim      the wheel, its build and what it needs are kept in build/sim/python_module

Then tests/python/*.py run with that folder alone on their path, from a folder that is not the checkout; and mypy reads
them, with the types that the module says of itself.

Exit code: 0 fine, 1 not, 77 (skipped) without pip, Python's headers, or a package index to fetch what is built with.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
# What builds the wheel, what it needs, what reads its types: exact versions, so that the same commit is tested alike.
BUILT_WITH = ("scikit-build-core==1.1.2", "nanobind==3.1.0", "mypy==2.4.1")
NEEDED = ("numpy",)


def skip(reason):
    print(f"test skipped: {reason}")
    sys.exit(SKIPPED)


def pip(*words, **more):
    return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], encoding="utf-8", **more)


def fetch(tools):
    """Into the folder `tools`, once."""
    if (tools / "complete").is_file():
        return
    shutil.rmtree(tools, ignore_errors=True)
    done = pip("install", "--quiet", "--no-compile", "--target", tools, *BUILT_WITH, *NEEDED, capture_output=True)
    if done.returncode:
        skip(f"pip cannot fetch {', '.join((*BUILT_WITH, *NEEDED))}: {done.stderr.strip()[-500:]}")
    (tools / "complete").touch()


def build_wheel(folder, environment):
    """The wheel of the checkout. What is compiled stays in folder/build for the next time."""
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    done = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, "--config-settings",
               f"build-dir={folder / 'build'}", "--config-settings", "cmake.define.PDL_WERROR=ON", "--config-settings",
               "cmake.build-type=Debug", ROOT, env=environment,
               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(done.stdout)
        sys.exit(1)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=lambda path: pathlib.Path(path).resolve())
    folder = parser.parse_args().build / "python_module"
    if pip("--version", capture_output=True).returncode:
        skip("python3 has no pip")
    if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").is_file():
        skip("Python's headers are not here (python3-dev)")
    tools, installed = folder / "tools", folder / "installed"
    fetch(tools)
    own = {name: value for name, value in os.environ.items() if name not in ("PDL_DATA", "PYTHONPATH")}
    path = os.pathsep.join((str(tools / "bin"), own["PATH"]))
    wheel = build_wheel(folder, {**own, "PYTHONPATH": str(tools), "PATH": path})
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    shutil.rmtree(installed, ignore_errors=True)
    pip("install", "--quiet", "--no-deps", "--target", installed, wheel, check=True)
    with tempfile.TemporaryDirectory() as elsewhere:
        environment = {**own, "PYTHONPATH": os.pathsep.join((str(installed), str(tools))),
                       "PDL_SIM": str(folder.parent / "pdl-sim")}
        tested = subprocess.run([sys.executable, "-m", "unittest", "discover", "-s", ROOT / "tests" / "python"],
                                cwd=elsewhere, env=environment)
        mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", pathlib.Path(elsewhere) / "cache",
                "--exclude", "/scenarios/"]  # programs of the exercises are data of the package, not a part of it
        typed = [subprocess.run([*mypy, *what], cwd=elsewhere, env=environment).returncode
                 for what in (["-p", "pdl"], [ROOT / "tests" / "python" / "typed_use.py"])]
    return 1 if tested.returncode or any(typed) else 0


if __name__ == "__main__":
    sys.exit(main())
