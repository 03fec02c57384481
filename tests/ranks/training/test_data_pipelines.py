"""Data pipelines on real ranks: what data_pipelines_program.py found on ranks that others share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.numerics_world import World, world_on

from jupyter_ddl.protocol.number_texts import size

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SAMPLES = 50


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "data_pipelines_program.py", tmp_path_factory)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return what four ranks found that have ended since."""
    return World("data_pipelines_program.py", 4, tmp_path_factory.mktemp("ended"))


def test_the_shard_is_this_rank_s(world: World) -> None:
    for parts in world.every("places_are_horovod_s"):
        assert [sorted(part) for part in parts] == [
            list(range(rank, SAMPLES, world.size)) for rank in range(world.size)
        ]


def test_ranks_take_their_parts_of_one_order(world: World) -> None:
    for epochs in world.every("parts_of_one_order"):
        assert [len(set(epoch)) for epoch in epochs] == [SAMPLES // 2] * 2, "no sample twice"
        assert epochs[0] != epochs[1], "another half in the next epoch"


def test_an_order_of_each_rank_s_own_is_refused_on_each(world: World) -> None:
    for text in world.every("an_order_of_each_rank_s_own"):
        assert text.startswith("Ranks that take their parts of one random order must draw the same order.")


def test_each_rank_caches_its_own_elements(world: World) -> None:
    answers = world.every("caches_of_this_node")
    for rank, answer in enumerate(answers):
        assert answer["epochs"] == [list(range(rank, SAMPLES, world.size))] * 2
        assert answer["folders"] == world.size
    told = [answer["told"] for answer in answers]
    assert told[0].startswith(f"Cache in {world.folder}, ")
    assert told[0].endswith(f" free: {size(8 * -(-SAMPLES // world.size))}, for each rank.\n")
    assert told[1:] == [""] * (world.size - 1), "once for a host"


@pytest.mark.slow
def test_the_caches_are_gone_with_the_ranks(ended: World) -> None:
    """tests/pure/test_data_places.py shows it of a process without Horovod."""
    assert [answer["folders"] for answer in ended.every("caches_of_this_node")] == [4] * 4
    assert not list(ended.folder.glob("jupyter_ddl-cache-*"))


def test_a_fit_sees_every_sample_once(world: World) -> None:
    answers = world.every("a_fit_of_shards")
    assert all(answer["seen"] == sorted([*range(SAMPLES)] * 2) for answer in answers)
    assert len({answer["weights"] for answer in answers}) == 1


def test_advice_needs_no_other_rank(world: World) -> None:
    first, *others = world.every("one_rank_asks_for_advice")
    assert first["fed"] > 0
    assert first["same"], "the model has its weights back"
    assert others == [{}] * (world.size - 1)
