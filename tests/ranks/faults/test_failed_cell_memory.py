"""What a failed cell's frames held is free before the next cell runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

HELD_MB = 256
MODEL = f"""
import asyncio, gc, numpy as np, psutil

def rss_mb():
    return psutil.Process().memory_info().rss / 2**20

def hold():
    return np.ones({HELD_MB} * 2**17)

def plain():
    held = hold()
    raise RuntimeError(f'holds {{rss_mb() - before > 0.9 * {HELD_MB}}}')

def chained():
    held = hold()
    try:
        plain()
    except RuntimeError as error:
        kept = error  # a cycle, which nothing but a collection ends
        raise ValueError('chained') from error

async def awaited():
    held = hold()
    await asyncio.sleep(0)
    raise RuntimeError('awaited')

"""


def test_failed_cells_leave_their_memory_free(pair: Session) -> None:
    pair.wait_warm()  # what TensorFlow takes is not the cell's
    pair.run(MODEL)
    for code in ("plain()", "chained()", "await awaited()"):
        pair.run("gc.collect(); before = rss_mb(); gc.disable()")  # nobody tidies up by chance
        with pytest.raises(RankError) as raised:
            pair.run(code)
        if code == "plain()":
            assert {failure.message for failure in raised.value.failures} == {"holds True"}
        after = pair.run("gc.enable(); rss_mb() - before").ranks
        grown_mb = {rank: float(result.value or "nan") for rank, result in after.items()}
        assert max(grown_mb.values()) < HELD_MB / 2, (code, grown_mb)
