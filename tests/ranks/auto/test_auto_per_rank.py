"""`--auto` with its default, a batch of each rank's, is one process with N times the batch."""

from __future__ import annotations

import numpy as np
import pytest
from ranks.mpirun import PAIR
from ranks.numerics_world import World, world_of

pytestmark = pytest.mark.mpi
KINDS = (
    "with_a_rest",
    "weighted",
    "of_two_classes",
    "accumulating",
    "of_a_dataset",
    "of_a_generator",
    "of_a_pydataset",
    "by_an_own_step",
)
# Sums in another order, in single precision, through some twelve steps of 0.01.
FARTHEST = 1e-5


@pytest.fixture(scope="module", params=PAIR)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_of("auto_per_rank_program.py", request.param, tmp_path_factory)


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_as_one_process_with_a_batch_as_large_as_all_of_theirs(world: World, kind: str) -> None:
    wanted = world.one("alone")[kind]
    for found in world.every(kind):
        for weight, of_one in zip(found["weights"], wanted["weights"], strict=True):
            assert np.abs(np.asarray(weight) - np.asarray(of_one)).max() < FARTHEST
        assert found["history"].keys() == wanted["history"].keys()
        for name, values in found["history"].items():
            assert values == pytest.approx(wanted["history"][name], rel=1e-4), name
