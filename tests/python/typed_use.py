"""What mypy has to make of the module, strictly. Read by mypy (tests/python_module.py), not run."""

from typing import Any, Optional

import numpy.typing

import pdl

prediction: pdl.Prediction = pdl.predict(gpus=5, depth=20, schedule="gpipe", profile="h100x4", memory="40GiB")
step_time_ms: float = prediction.step_time_ms
host_share: Optional[float] = prediction.host_share
settings: dict[str, str] = prediction.settings
busy_ms: list[float] = [gpu.busy_ms for gpu in prediction.gpus]
transfer_bytes: int = prediction.transfers.bytes
spans: dict[str, numpy.typing.NDArray[Any]] = prediction.spans()
rows: list[dict[str, Any]] = pdl.sweep(gpus=[1, 2], threads=2, scaling="weak")
names: list[str] = [profile.name for profile in pdl.profiles()] + [setting.name for setting in pdl.settings()]
plan: dict[str, Any] = pdl.plan(gpus=2, tf=1, tb=2, best=3)
wrong: int = prediction.json()  # type: ignore[assignment]
