"""Programs of JAX that tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

JAX = """
import time
import numpy as np
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
"""
BEGUN = f"""{JAX}
jax.distributed.initialize()
kept = rank

def sharded(values):
    mesh = Mesh(jax.devices(), ("x",))
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.asarray(values, np.float32)), mesh

@jax.jit
def summed(array):
    return array.sum()

def total(value):
    array, mesh = sharded([value])
    return float(summed(array))

total(rank + 1)
"""


def values(session: Session, code: str) -> list[str | None]:
    """Return the value of a cell's last line on each rank."""
    return [rank.value for rank in session.run(code).ranks.values()]
