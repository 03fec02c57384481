"""Every model, optimizer, precision and way to train, on two and on four ranks; `tests/ranks` takes a part of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.numerics_world import World
from ranks.training.test_numerics_equality import assert_equal_to_one_process
from ranks.training.test_numerics_training import (
    OF_POLICIES,
    assert_each_setting_has_an_effect,
    assert_features_as_in_one_process,
    assert_policies_as_in_one_process,
    assert_ways_of_compiling_alike,
    assert_weighed_by_samples,
)

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 2400.0

pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S + 60)]


def every_case(program: str, n: int, folder: Path) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMERICS_CASES", "all")
        patch.setenv("NUMERICS_HANGS_S", str(TIMEOUT_S - 60))
        return World(program, n, folder, TIMEOUT_S)


@pytest.mark.parametrize("n", [2, 4])
def test_every_optimizer_model_and_way(n: int, tmp_path: Path) -> None:
    world = every_case("numerics_equality_program.py", n, tmp_path)
    for precision in ("float32", "float64"):
        assert len(set(assert_equal_to_one_process(world, precision))) == 3 * 5 * 3


@pytest.mark.parametrize("n", [1, 2, 4])
def test_every_feature_and_uneven_case(n: int, tmp_path: Path) -> None:
    world = every_case("numerics_training_program.py", n, tmp_path)
    assert assert_features_as_in_one_process(world) == 16
    assert_each_setting_has_an_effect(world)
    assert assert_ways_of_compiling_alike(world) == 6
    assert assert_policies_as_in_one_process(world) == OF_POLICIES.keys()
    assert assert_weighed_by_samples(world) == 9
