"""Runs the programs of tests/auto_programs as somebody would, and takes what each leaves behind.

Knows nothing of Horovod or of us: one process runs a program by this, and so does each of several ranks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    import numpy as np

PROGRAMS = Path(__file__).parents[2] / "auto_programs"
# What a program needs that not every environment has.
NEEDS = {"data_frame": "pandas"}


@dataclass(frozen=True)
class Outcome:
    """What a program left behind.

    Attributes:
        weights: of its `model`.
        history: of its `history`: a metric's values by epoch.
        results: its `results`, numbers by their names.
        predictions: its `predictions`, an array each.
        names: all that it defined.
    """

    weights: list[np.ndarray]
    history: dict[str, list[float]]
    results: dict[str, float]
    predictions: list[np.ndarray]
    names: dict[str, Any]


def names_of_programs() -> list[str]:
    """Return the names of the programs that can run here."""
    names = sorted(path.stem for path in PROGRAMS.glob("*.py"))
    return [name for name in names if name not in NEEDS or find_spec(NEEDS[name])]


def run_in(folder: Path, name: str, programs: Path = PROGRAMS) -> Outcome:
    """Run a program in a folder, and leave Keras as a new process would find it."""
    path = programs / f"{name}.py"
    home = Path.cwd()
    os.chdir(folder)
    try:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(path.read_text(), str(path), "exec"), names)
    finally:
        os.chdir(home)
        keras.config.set_dtype_policy("float32")
        keras.utils.clear_session()
    history = names["history"].history if "history" in names else {}
    predictions = names.get("predictions", [])
    if not isinstance(predictions, list):
        predictions = list(predictions.values()) if isinstance(predictions, dict) else [predictions]
    return Outcome(
        names["model"].get_weights(),
        {key: [float(value) for value in values] for key, values in history.items()},
        {key: float(value) for key, value in names.get("results", {}).items()},
        predictions,
        names,
    )
