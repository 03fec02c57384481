"""Ranks of JAX that wait for others say so by themselves: in which computation, and for whom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from frameworks.jax_programs import BEGUN, values
from ranks.sizes import slow_but

from jupyter_ddl.errors import RunStalled
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

ABORT = StallOptions(5, "abort")
SYNC = "from jax.experimental import multihost_utils\n"
# What the first rank waits in, and how the report names it.
PLACES = {
    "jit": ("float(summed(array))", "jit(summed)"),
    "asynchronous": ("for _ in range(3):\n    array = step(array)\narray.block_until_ready()", "jit(step)"),
    "compiled": ("compiled(array)", "jit(summed)"),
    "pmap": ("jax.pmap(lambda v: jax.lax.psum(v, 'i'), axis_name='i')(jnp.ones(1))", "pmap"),
    "eager": ("array.sum()", "jit(_reduce_sum)"),
    "sync": (f"{SYNC}multihost_utils.sync_global_devices('saved')", "sync_global_devices('saved')"),
    "allgather": (f"{SYNC}multihost_utils.process_allgather(np.ones(2))", "process_allgather()"),
    "devices": ("jax.distributed.shutdown()\njax.distributed.initialize()\nlate()\njax.devices()", "jax.devices()"),
}
QUICK = {"jit", "asynchronous", "sync", "devices"}
# Each computation has run before: then JAX calls it in C++, and Python sees no more of it.
PREPARED = f"""{BEGUN}
array, mesh = sharded(np.ones(500_000))

@jax.jit
def step(values):
    return values + values.sum() + jnp.cumsum(jnp.sort(values)).sum()

@jax.jit
def shifted(values):
    shift = jax.shard_map(lambda v: jax.lax.ppermute(v, "x", [(0, 1)]), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    return shift(values)

compiled = summed.lower(array).compile()
for _ in range(3):
    float(summed(array)), compiled(array), step(array).block_until_ready(), shifted(array)
"""
LATE = """
def late():
    if rank == world_size - 1:
        time.sleep(300)
"""


def stalled(session: Session, code: str) -> str:
    session.run(PREPARED)
    with pytest.raises(RunStalled) as caught:
        session.run(LATE + code, stalls=ABORT, timeout_s=60)
    print(caught.value)
    assert values(session, "total(rank + 1)") == ["3.0", "3.0"] if session.world_size == 2 else ["10.0"] * 4
    return str(caught.value)


@pytest.mark.parametrize("place", slow_but(QUICK, PLACES))
def test_a_rank_that_does_not_enter_a_computation_is_named(jax_pair: Session, place: str) -> None:
    code, name = PLACES[place]
    told = stalled(jax_pair, code if "late()" in code else f"late()\n{code}")
    assert re.match(r"The cell has stalled for [\d.]+ s: not every rank has entered\n", told)
    assert f"\n  {name}: rank 0 waits in it for rank 1\n" in told
    assert re.search(r"\nRank 1 of 2 on .*\n(  cell line .*\n)*  cell line 4, in late: time\.sleep\(300\)\n", told)
    assert told.endswith("The ranks were released, as --on-stall abort says.")


def test_a_rank_that_has_ended_the_cell_before_a_computation_is_named(jax_pair: Session) -> None:
    told = stalled(jax_pair, "time.sleep(2)\nif rank == 0:\n    float(summed(array))")
    assert "\n  jit(summed): rank 0 waits in it for rank 1\n" in told


def test_computations_in_another_order_are_both_named(jax_pair: Session) -> None:
    told = stalled(
        jax_pair,
        "first, second = (summed, shifted) if rank else (shifted, summed)\n"
        "first(array).block_until_ready()\nsecond(array).block_until_ready()",
    )
    assert "\n  jit(shifted): rank 0 waits in it for rank 1\n" in told
    assert "\n  jit(summed): rank 1 waits in it for rank 0\n" in told


def test_the_first_computation_that_a_rank_has_not_begun_is_named(jax_pair: Session) -> None:
    code = "array = step(array)\n" + "if rank:\n    time.sleep(300)\narray = step(array)\nfloat(summed(array))"
    assert "\n  jit(step): rank 0 waits in it for rank 1\n" in stalled(jax_pair, code)


def test_a_mesh_of_some_ranks_names_its_own(jax_ranks: Callable[[int], Session]) -> None:
    four = jax_ranks(4)
    code = """
right = Mesh(np.asarray(jax.devices()[2:]), ("x",))
if rank > 1:
    part = jax.make_array_from_process_local_data(NamedSharding(right, P("x")), np.ones(1, np.float32))
    late()
    float(summed(part))
"""
    told = stalled(four, code)
    assert "\n  jit(summed): ranks 0-2 wait in it for rank 3\n" in told or "\n  jit(summed): rank 2 waits" in told


def test_ranks_that_compute_long_or_come_late_are_no_stall(jax_pair: Session) -> None:
    jax_pair.run(PREPARED)
    # The first rank has begun all steps long before the second, which takes longer than a stall does. It has less to do
    # besides, and ends its cell while the first still computes without an exchange.
    alone = """
for _ in range(8):
    time.sleep(rank)
    array = step(array)
float(summed(array))

@jax.jit
def long(values):
    return jax.lax.fori_loop(0, 40_000_000, lambda at, value: jnp.sin(value) + at, values)

began_s = time.monotonic()
while rank == 0 and time.monotonic() - began_s < 8:
    long(1.0).block_until_ready()
"""
    jax_pair.run(alone, stalls=ABORT)


def test_what_counts_computations_changes_no_function(jax_pair: Session) -> None:
    jax_pair.run(PREPARED)
    code = """
@jax.jit
def both(values, times=2):
    return values.sum() * times

local = jnp.arange(3.0)
found = [float(both(local)), float(both(array)), float(both(local, times=3)), float(both(array, 1)), float(both(local))]
traced = float(jax.jit(lambda values: both(values) + 1)(array)), float(jax.grad(both)(local)[0])
listed = jax.jit(lambda tree: jax.tree.map(lambda one: one.sum(), tree))({"a": [array, local], "b": None})
static = jax.jit(lambda values, n: values.sum() + n, static_argnums=1)
donated = jax.jit(lambda values: values * 2 + values.sum(), donate_argnums=0)
given = array + 0
kept = [donated(given).shape, given.is_deleted(), float(static(array, 3)), float(static(array, 4))]
found, traced, float(listed["a"][0]), float(listed["a"][1]), kept, type(both).__name__, both.__name__
"""
    kept = [(1_000_000,), True, 1_000_003.0, 1_000_004.0]
    expected = [6.0, 2e6, 9.0, 1e6, 6.0], (2_000_001.0, 2.0), 1e6, 3.0, kept, "PjitFunction", "both"
    for _ in range(2):
        for value in values(jax_pair, code):
            assert value is not None
            assert eval(value) == expected
