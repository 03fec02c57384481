"""Compares what programs of Keras's leave behind on the ranks with what one process does, on any backend."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from frameworks import keras_outcomes

from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.protocol.memory_options import MemoryOptions

GLOBAL = AutoOptions(batch="global")
# The norm of a tensor's difference, and the relative difference of the numbers.
TOLERANCE = 1e-5
TOLERANCE_HALF = 1e-3
ROUNDING = 1e-6


def bound_of(name: str) -> float:
    """Return how far a program's numbers may be off."""
    return TOLERANCE_HALF if name == "mixed_precision" else 1e-10 if "float64" in name else TOLERANCE


def of_any_backend(*without: str) -> list[str]:
    """Return the programs that need no TensorFlow, but for some."""
    return [
        path.stem
        for path in sorted(keras_outcomes.OF_ANY.glob("*.py"))
        if "tensorflow" not in path.read_text() and path.stem not in without
    ]


def alone_on(backend: str, folder: Path, quick: Collection[str]) -> Callable[[str], dict[str, Any]]:
    """Return a function from a program to what one process, which knows nothing of us, leaves behind.

    Args:
        backend: Keras's.
        folder: for its outcomes.
        quick: programs that run in one process together: Keras takes two seconds to import.
    """
    known: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        if name not in known:
            names = quick if name in quick and not known.keys() & set(quick) else (name,)
            command = [sys.executable, keras_outcomes.__file__, str(folder / "outcomes"), *names]
            subprocess.run(command, check=True, env=os.environ | {"KERAS_BACKEND": backend}, timeout=280)
            known.update(pickle.loads((folder / "outcomes").read_bytes()))
        assert "raised" not in known[name], known[name]["raised"]
        return known[name]

    return of


def on_ranks(session: Session, name: str, folder: Path, memory: MemoryOptions | None = None) -> list[dict[str, Any]]:
    """Return what a program leaves behind on each rank, with `--auto --batch global`, and `--memory`."""
    code = f"""
import sys
sys.path.append({str(Path(keras_outcomes.__file__).parent)!r})
import keras_outcomes
from pathlib import Path
found = keras_outcomes.outcome_of({name!r}, Path({str(folder)!r}))
"""
    session.run(code, auto=GLOBAL, memory=memory, timeout_s=200)
    return list(session.pull("found").values())


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], bound: float) -> None:
    """Compare weights, histories, results and predictions."""
    for ours, theirs in zip(found["weights"], wanted["weights"], strict=True):
        assert np.linalg.norm(np.subtract(ours, theirs, dtype="float64")) < bound
    for kind in ("history", "results"):
        assert found[kind].keys() == wanted[kind].keys()
        for metric, value in wanted[kind].items():
            assert found[kind][metric] == pytest.approx(value, rel=bound, abs=ROUNDING), metric
    for ours, theirs in zip(found["predictions"], wanted["predictions"], strict=True):
        assert np.shape(ours) == np.shape(theirs)
        assert float(np.abs(np.subtract(ours, theirs)).max()) < bound
