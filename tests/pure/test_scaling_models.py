"""The data of the benchmark's models: shapes, classes that can be learned, the same in every run."""

from __future__ import annotations

import numpy as np
import pytest

from jupyter_ddl.scaling_program.models.catalogue import MODELS
from jupyter_ddl.scaling_program.strategy_sides import blocks
from jupyter_ddl.scaling_program.training import Measured, Task, timed

SIZES = {"cnn": 28, "hep-cnn": 64, "cosmogan": 64, "resnet50": 32, "transformer": 16}


def data(name: str, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made data of a model."""
    return MODELS[name].data(np.random.default_rng(1), samples, SIZES[name])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn", (28, 28, 1)),
        ("hep-cnn", (64, 64, 3)),
        ("cosmogan", (64, 64, 1)),
        ("resnet50", (32, 32, 3)),
        ("transformer", (16,)),
    ],
)
def test_data_have_the_shape_of_the_source(name: str, shape: tuple[int, ...]) -> None:
    x, y = data(name, 3)
    assert x.shape == (3, *shape)
    assert x.dtype == ("int32" if name == "transformer" else "float32")
    assert len(y) == 3


def test_collisions_with_new_physics_have_more_jets() -> None:
    x, y = data("hep-cnn", 400)
    assert x.min() >= 0
    assert x.max((0, 1, 2)) == pytest.approx([1, 1, 1])
    deposited = x[..., 0].sum((1, 2))
    assert 1.5 < deposited[y == 1].mean() / deposited[y == 0].mean() < 3
    assert (x[..., 0] < 1e-4).mean() > 0.5


def test_maps_are_in_the_range_of_tanh_and_skewed() -> None:
    x, _ = data("cosmogan", 20)
    assert -1 < x.min() < 0 < x.max() <= 1
    assert ((x - x.mean()) ** 3).mean() > 0


def test_replicas_have_other_batches_and_the_same_ones_in_every_run() -> None:
    task = Task(MODELS["cnn"], 2, 28, 1, 1)
    first, again, other = (task.batches(replica)[0][0] for replica in (0, 0, 1))
    assert (first == again).all()
    assert not (first == other).all()


def test_steps_before_the_timed_ones_count_for_the_loss_alone() -> None:
    found = Measured()
    timed(Task(MODELS["cnn"], 2, 28, 3, 4), lambda i: 10 - i, found)
    assert found.losses == [10, 9, 8, 7, 6, 5, 4]
    assert len(found.step_s) == 4
    assert found.elapsed_s[0] == 0
    assert found.elapsed_s == sorted(found.elapsed_s)


@pytest.mark.parametrize(
    ("warm_up", "steps", "expected"),
    [(10, 7, [(0, 10), (10, 5), (15, 2)]), (1, 4, [(0, 1), (1, 4)]), (3, 10, [(0, 3), (3, 5), (8, 5)])],
)
def test_no_block_has_both_timed_and_other_steps(warm_up: int, steps: int, expected: list[tuple[int, int]]) -> None:
    assert blocks(warm_up, steps) == expected
