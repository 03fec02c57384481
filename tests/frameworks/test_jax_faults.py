"""Faults of ranks that are JAX's processes: the next computation works, on the same ranks or on new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from frameworks.jax_programs import BEGUN, values
from ranks.sizes import slow_but

from jupyter_ddl.errors import ClusterLost, RankError
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# What the last rank does while the others wait for it in a computation, and what is told.
LOST = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", r"rank 1 on .* was ended by signal 9"),
    "exits": ("os._exit(3)", r"rank 1 on .* exited with status 3"),
    "segmentation": ("import ctypes\n    ctypes.string_at(0)", r"rank 1 on .* was ended by signal 11"),
}


@pytest.mark.parametrize("fault", slow_but({"killed", "exits"}, LOST))
def test_a_rank_that_ends_is_named_and_new_ranks_compute(jax_pair: Session, fault: str) -> None:
    jax_pair.run(BEGUN)
    ends, told = LOST[fault]
    with pytest.raises(ClusterLost, match=told):
        jax_pair.run(f"import os, signal\nif rank == 1:\n    {ends}\ntotal(1)", timeout_s=120)
    jax_pair.wait_rebuilt()
    assert values(jax_pair, BEGUN) == ["3.0", "3.0"]


@pytest.mark.slow
def test_a_stopped_rank_is_missed_and_replaced(jax_pair: Session) -> None:
    jax_pair.run(BEGUN)
    stops = "import os, signal\nif rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\ntotal(1)"
    with pytest.raises(ClusterLost, match="rank 1"):
        jax_pair.run(stops, stalls=StallOptions(5, "abort"), timeout_s=120)
    jax_pair.wait_rebuilt()
    assert values(jax_pair, BEGUN) == ["3.0", "3.0"]


def test_a_rank_without_memory_raises_and_the_others_are_released(jax_pair: Session) -> None:
    jax_pair.run(BEGUN)
    before = [rank.pid for rank in jax_pair.ranks]
    with pytest.raises(RankError, match=r"Rank 1 of 2 .*(RESOURCE_EXHAUSTED|[Oo]ut of memory)"):
        jax_pair.run("if rank:\n    jnp.zeros((2**45,), jnp.uint8).block_until_ready()\ntotal(1)", timeout_s=120)
    assert values(jax_pair, "total(rank + 1), kept") == ["(3.0, 0)", "(3.0, 1)"]
    assert [rank.pid for rank in jax_pair.ranks] == before


# Of the processes that made `array` nothing is left but what a rank held itself.
MADE = f"""{BEGUN}
array, mesh = sharded([rank + 1.0])
spread = NamedSharding(mesh, P("x"))
whole = jax.device_put(np.arange(2.0), jax.local_devices()[0])
compiled = summed.lower(array).compile()
meaned = jax.shard_map(lambda v: jax.lax.pmean(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
doubled = jax.jit(lambda v: v * 2, out_shardings=spread)
compiled(array), doubled(array)
"""
NEW = "new, _ = sharded([1.0])\n"
OF_EARLIER = {
    "array": ("float(summed(array))", "an array"),
    "operation": ("array + 1", "an array"),
    "mixed": (f"{NEW}new + array", "an array"),
    "gathered": (
        "from jax.experimental import multihost_utils\nmultihost_utils.process_allgather(array, tiled=True)",
        "an array",
    ),
    "placed again": ("float(summed(jax.device_put(np.ones(2, np.float32), spread)))", "an array"),
    "mesh": (f"{NEW}meaned(new)", "a mesh, or a sharding,"),
    "sharding": (f"{NEW}doubled(new)", "a mesh, or a sharding,"),
    "set_mesh": (f"{NEW}with jax.set_mesh(mesh):\n    float(summed(new))", "the mesh of jax.set_mesh()"),
    "compiled": (f"{NEW}compiled(new)", "a compiled function"),
    "compiled with its array": ("compiled(array)", "a compiled function"),
}


def test_what_earlier_processes_made_is_refused_in_one_sentence(jax_pair: Session) -> None:
    jax_pair.run(MADE)
    with pytest.raises(RankError, match="on purpose"):
        jax_pair.run("if rank: raise ValueError('on purpose')\ntotal(1)")
    for name, (code, received) in OF_EARLIER.items():
        with pytest.raises(RankError) as caught:
            jax_pair.run(code, timeout_s=120)
        told = str(caught.value)
        assert "InvalidInput: Spread arrays, meshes and compiled functions of JAX are of use" in told, (name, told)
        assert f"Received: {received} of processes that have ended" in told, (name, told)
        assert "Make the mesh again" in told
    kept = "(whole + 1).tolist(), float(array.addressable_shards[0].data[0]), float(summed(sharded([1.0])[0]))"
    assert values(jax_pair, kept) == ["([1.0, 2.0], 1.0, 2.0)", "([1.0, 2.0], 2.0, 2.0)"]
    again = "array, mesh = sharded([rank + 1.0])\nfloat(summed.lower(array).compile()(array)), float(summed(array + 1))"
    assert values(jax_pair, again) == ["(3.0, 5.0)"] * 2


def test_the_same_where_the_program_has_ended_its_processes_itself(jax_pair: Session) -> None:
    jax_pair.run(MADE)
    with pytest.raises(RankError, match="Received: an array of processes that have ended"):
        jax_pair.run("jax.distributed.shutdown()\njax.distributed.initialize()\nfloat(summed(array))")
    assert values(jax_pair, "total(rank + 1)") == ["3.0", "3.0"]
