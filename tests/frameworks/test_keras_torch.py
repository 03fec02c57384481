"""Keras on PyTorch under --auto: with --batch global all ranks come to what one process does, in the same programs.

What tests/ranks/auto/test_auto_equality.py shows with TensorFlow. Programs of tf.data, GradientTape and tf.function
are TensorFlow's; `keras_programs` has those that are PyTorch's.
"""

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
from ranks.sizes import slow_but

from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

GLOBAL = AutoOptions(batch="global")
BACKEND = {"KERAS_BACKEND": "torch"}
OWN_RULES = ("batch_normalization", "dropout", "random_augmentation")
# Keras has no sparse tensors on PyTorch, and takes no gradient of a loss without a reduction.
NOT_ON_TORCH = ("data_frame", "sparse_matrix", "summed_losses")
PROGRAMS = [
    *(
        path.stem
        for path in sorted(keras_outcomes.OF_ANY.glob("*.py"))
        if "tensorflow" not in path.read_text() and path.stem not in (*OWN_RULES, *NOT_ON_TORCH)
    ),
    *sorted(path.stem for path in keras_outcomes.OF_THIS_BACKEND.glob("*.py")),
]
QUICK = (
    "custom_train_step_of_torch",
    "fit_after_load",
    "loaders_of_torch",
    "metrics_of_each_kind",
    "mixed_precision",
    "odd_batch",
    "python_generator",
    "sequence_of_batches",
    "summed_losses_of_torch",
    "train_on_batch_loop",
    "two_outputs",
    "weighted_samples",
)
# The norm of a tensor's difference, and the relative difference of the numbers.
TOLERANCE = 1e-5
TOLERANCE_HALF = 1e-3
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Return a function from a program to what one process, which knows nothing of us, leaves behind."""
    folder, known = tmp_path_factory.mktemp("alone"), {}

    def of(name: str) -> dict[str, Any]:
        if name not in known:
            # All quick ones at once: Keras takes two seconds to import.
            names = QUICK if name in QUICK and not known.keys() & set(QUICK) else (name,)
            command = [sys.executable, keras_outcomes.__file__, str(folder / "outcomes"), *names]
            subprocess.run(command, check=True, env=os.environ | BACKEND, timeout=280)
            known.update(pickle.loads((folder / "outcomes").read_bytes()))
        assert "raised" not in known[name], known[name]["raised"]
        return known[name]

    return of


def on_ranks(session: Session, name: str, folder: Path) -> list[dict[str, Any]]:
    code = f"""
import sys
sys.path.append({str(Path(keras_outcomes.__file__).parent)!r})
import keras_outcomes
from pathlib import Path
found = keras_outcomes.outcome_of({name!r}, Path({str(folder)!r}))
"""
    session.run(code, auto=GLOBAL, timeout_s=200)
    return list(session.pull("found").values())


def assert_equal(found: dict[str, Any], wanted: dict[str, Any], bound: float) -> None:
    for ours, theirs in zip(found["weights"], wanted["weights"], strict=True):
        assert np.linalg.norm(np.subtract(ours, theirs, dtype="float64")) < bound
    for kind in ("history", "results"):
        assert found[kind].keys() == wanted[kind].keys()
        for metric, value in wanted[kind].items():
            assert found[kind][metric] == pytest.approx(value, rel=bound, abs=ROUNDING), metric
    for ours, theirs in zip(found["predictions"], wanted["predictions"], strict=True):
        assert np.shape(ours) == np.shape(theirs)
        assert float(np.abs(np.subtract(ours, theirs)).max()) < bound


@pytest.mark.parametrize("name", slow_but(QUICK, PROGRAMS))
def test_a_program_comes_to_what_one_process_does(
    keras_pair: Session, name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    bound = TOLERANCE_HALF if name == "mixed_precision" else 1e-10 if "float64" in name else TOLERANCE
    every = on_ranks(keras_pair, name, tmp_path)
    for found in every:
        assert_equal(found, alone(name), bound)
        for ours, others in zip(found["weights"], every[0]["weights"], strict=True):
            assert np.array_equal(ours, others), "the weights must be the same bits on all ranks"


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_so_it_does_on_one_rank_and_on_four(
    keras_ranks: Callable[[int], Session],
    n: int,
    name: str,
    alone: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    bound = TOLERANCE_HALF if name == "mixed_precision" else 1e-10 if "float64" in name else TOLERANCE
    for found in on_ranks(keras_ranks(n), name, tmp_path):
        assert_equal(found, alone(name), bound)
