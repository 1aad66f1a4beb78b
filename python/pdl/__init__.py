"""How long a training step takes on several GPUs: predictions of pdl-sim, from Python.

    import pdl
    pdl.predict(gpus=5, depth=20, schedule="gpipe").step_time_ms
    pandas.DataFrame(pdl.sweep(gpus=[1, 2, 4], strategy="ddp", batch=64))
    pandas.DataFrame(pdl.plan(gpus=4, depth=16, memory="20GiB")["best"])

Settings are the words of pdl-sim's command line with _ for - (`pdl.settings()` lists them). Units are in the names:
_ms milliseconds, _us microseconds, _bytes bytes, _fraction 0 to 1. What is wrong with the input is an InputError (a
ValueError), what cannot run a CannotRun (a RuntimeError).
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable
from typing import Any, Optional, Union

from . import _pdl
from ._pdl import CannotRun, GpuPrediction, InputError, KnownProfile, KnownSetting, Prediction, Traffic

__all__ = ["CannotRun", "GpuPrediction", "InputError", "KnownProfile", "KnownSetting", "Prediction", "Traffic",
           "plan", "predict", "profiles", "settings", "sweep"]

_pdl.set_files_folder(os.path.dirname(os.path.abspath(__file__)))
__version__ = _pdl.version()

Memory = Union[str, int, None]
"""An amount of memory: '40GiB', '80GB', or a number of bytes."""
Profile = Union[str, "os.PathLike[str]", None]
"""The name of a profile (`pdl.profiles()`), or the path of a profile.json."""


def predict(*, profile: Profile = None, memory: Memory = None, **settings: Any) -> Prediction:
    """One training step.

    settings: words of the command line with _ for -: gpus=4, schedule="1f1b", dtype="amp-bf16", no_sync=True,
        tf=[1, 1, 2, 1] (a value a stage, milliseconds). None is as if it was not given.
    profile: the costs; by default the largest machine in data/ that has measured what the settings need.
    memory: the most that a GPU may need, '40GiB' or bytes; by default what its card has.

    Raises InputError (a ValueError) for settings that are wrong, CannotRun (a RuntimeError) for a deadlock or too little
    memory.
    """
    return _pdl.predict(_words(settings, _text), _path(profile), _bytes(memory))


def sweep(*, profile: Profile = None, memory: Memory = None, scaling: Optional[str] = None, threads: int = 0,
          **settings: Any) -> list[dict[str, Any]]:
    """Every combination of lists of settings: a row each, ready for pandas.DataFrame.

    settings: as of predict(), and lists of values: gpus=[1, 2, 4], schedule=["gpipe", "1f1b"]; a range is
        microbatches="2:8" or dim="1024:8192:x2". In a list a value a stage is a list of its own: tf=[[1, 1], [1, 2]].
    profile: the costs of all rows; by default the machine in data/ that can predict most of them.
    memory: rows whose GPUs need more have within_memory_limit False.
    scaling: where the GPUs vary, "strong" (the default: the batch is held) or "weak" (the batch of a GPU is).
    threads: rows at a time; 0 is one a core.

    A row has all its settings, then step_time_ms, half_width_90_ms (90 % of measured steps lie within step_time_ms +- it)
    and unprobed_share (None where they are not known), bound_ms, throughput_samples_per_s, speedup and efficiency
    (against the row with the fewest GPUs), exposed_communication_fraction, bubble_fraction, idle_fraction, peak_memory_bytes,
    live_activations, live_activation_bytes, steps_overlap, within_memory_limit, warnings, and refused: why it cannot
    run, else None. Numbers of a row that cannot run are None.
    """
    rows = _pdl.predict_all(_words(settings, _values), _path(profile), _bytes(memory), scaling or "", threads)
    return [_row(words, results) for words, results in rows]


def plan(*, profile: Profile = None, memory: Memory = None, best: int = 10, threads: int = 0, **settings: Any) -> dict[str, Any]:
    """The configurations with the least step time: strategy, mesh, schedule, micro-batches and so on.

    settings: as of predict(), and fixed; a list or a range of what is searched, such as schedule=["1f1b", "gpipe"], is
        searched alone. dtype="any" searches the number formats, which is other training.
    profile: the costs of all configurations; by default the machine in data/ that can predict most of them.
    memory: the most that a GPU may need; by default what its card has.
    best: so many are listed.
    threads: configurations at a time; 0 is one a core.

    Gives a dict. best: a row each, the fastest first, ready for pandas.DataFrame: all its settings, then verdict ("fastest";
    "tie": the error bars do not tell it from the fastest; or ""), step_time_ms, half_width_90_ms and unprobed_share (None
    where they are not known), bubble_fraction, idle_fraction, exposed_communication_fraction, peak_memory_bytes, steps_overlap,
    measured_ms (None: not measured on GPUs of this kind), behind_by (what has grown most against the fastest) and warnings.
    profile, memory_limit_bytes, configurations (searched), predicted (of them), lost (how many by what: refused, memory,
    compute, bubble, communication, host), faster_with_more_memory (None, or one that would win and needs more).

    Raises InputError or CannotRun where no configuration can run or fits, with what comes nearest.
    """
    rows, of_all = _pdl.plan(_words(settings, _values), _path(profile), _bytes(memory), best, threads)
    return {"best": [_row(words, results) for words, results in rows], **of_all}


def profiles() -> list[KnownProfile]:
    """The machines that predictions can be made for, by name: those of this package, and of the folder $PDL_DATA."""
    return _pdl.profiles()


def settings() -> list[KnownSetting]:
    """The words that predict() and sweep() take, with what they mean."""
    return _pdl.settings()


def _row(words: list[tuple[str, str]], results: dict[str, Any]) -> dict[str, Any]:
    return {**{name.replace("-", "_"): _number(value) for name, value in words}, **results}


def _words(settings: dict[str, Any], text: Any) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), text(name, value)) for name, value in settings.items() if value is not None]


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict))


def _one(name: str, value: Any) -> str:
    if isinstance(value, (bool, str)) or hasattr(value, "__fspath__"):
        return {True: "1", False: "0"}[value] if isinstance(value, bool) else os.fspath(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    raise InputError(f"{name}: found {value!r}, expected a number, text, True or False, or a list of them")


def _listed(name: str, values: Iterable[Any], separator: str) -> str:
    texts = [_one(name, value) for value in values]
    if not texts:
        raise InputError(f"{name}: found an empty list, expected at least one value")
    return separator.join(texts)


def _text(name: str, value: Any) -> str:
    return _listed(name, value, ",") if _is_list(value) else _one(name, value)


def _values(name: str, value: Any) -> str:
    if not _is_list(value):
        return _one(name, value)
    return _listed(name, [_listed(name, one, "/") if _is_list(one) else one for one in value], ",")


def _path(profile: Profile) -> str:
    return "" if profile is None else os.fspath(profile)


def _bytes(memory: Memory) -> str:
    return "" if memory is None else str(memory)


def _number(text: str) -> Union[int, float, str]:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
