"""Keras on PyTorch under --auto: with --batch global all ranks come to what one process does, in the same programs.

What tests/ranks/auto/test_auto_equality.py shows with TensorFlow. Programs of tf.data, GradientTape and tf.function
are TensorFlow's; `keras_programs` has those that are PyTorch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from frameworks import keras_outcomes
from frameworks.keras_equality import alone_on, assert_equal, bound_of, of_any_backend, on_ranks
from ranks.sizes import slow_but

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

OWN_RULES = ("batch_normalization", "dropout", "random_augmentation")
# Keras has no sparse tensors on PyTorch, and takes no gradient of a loss without a reduction.
NOT_ON_TORCH = ("data_frame", "sparse_matrix", "summed_losses")
PROGRAMS = [
    *of_any_backend(*OWN_RULES, *NOT_ON_TORCH),
    *sorted(path.stem for path in keras_outcomes.OF_THIS_BACKEND.glob("*.py") if not path.stem.endswith("_of_jax")),
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    return alone_on("torch", tmp_path_factory.mktemp("alone"), QUICK)


@pytest.mark.parametrize("name", slow_but(QUICK, PROGRAMS))
def test_a_program_comes_to_what_one_process_does(
    keras_pair: Session, name: str, alone: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    every = on_ranks(keras_pair, name, tmp_path)
    for found in every:
        assert_equal(found, alone(name), bound_of(name))
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
    for found in on_ranks(keras_ranks(n), name, tmp_path):
        assert_equal(found, alone(name), bound_of(name))
