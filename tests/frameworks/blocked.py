"""Programs of PyTorch in which one rank waits for another, and how such a wait ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunInterrupted, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

TORCH = "import time, torch, torch.distributed as dist\n"
BEGUN = f"""{TORCH}
from torch.nn.parallel import DistributedDataParallel
dist.is_initialized() and dist.destroy_process_group()
dist.init_process_group()
torch.manual_seed(0)
x, kept = torch.ones(2) * (rank + 1), rank
model = DistributedDataParallel(torch.nn.Linear(4, 2))
"""
# What the first rank waits in, by name.
PLACES = {
    "all_reduce": "dist.all_reduce(x)",
    "wait": "dist.all_reduce(x, async_op=True).wait()",
    "barrier": "dist.barrier()",
    "object": "dist.all_gather_object([None] * world_size, {'rank': rank})",
    "ddp": "model(torch.randn(8, 4)).sum().backward()",
    "init": "dist.destroy_process_group(); dist.init_process_group()",
    "new_group": "dist.new_group(list(range(world_size)))",
}
# A release is of milliseconds, and took 5.8 s at a load of 20: what is meant is that nothing hangs, for half an hour.
SLACK_S = 30.0


def code(place: str, other: str) -> str:
    """Return a cell in which the last rank does something else, and the others wait for it at a place."""
    return f"""
if rank == world_size - 1:
    time.sleep(0.3)
    began_s = time.time()
    {other}
{PLACES[place]}
"""


def raised(session: Session, place: str) -> float:
    """Have a rank raise; return how long afterwards the cell had ended on all ranks, in seconds."""
    with pytest.raises(RankError, match="ValueError: on purpose") as caught:
        session.run(code(place, "raise ValueError('on purpose')"))
    ended_s = time.time()
    assert caught.value.rank == session.world_size - 1
    return ended_s - session.pull("began_s", [session.world_size - 1])[session.world_size - 1]


def interrupted(session: Session, place: str) -> float:
    """Interrupt ranks that wait; return how long afterwards the cell had ended on all, in seconds."""
    asked: list[float] = []

    def interrupt() -> None:
        asked.append(time.time())
        session.interrupt()

    timer = threading.Timer(1.0, interrupt)
    timer.start()
    with pytest.raises(RunInterrupted):
        session.run(code(place, "time.sleep(300)"))
    return time.time() - asked[0]


def timed_out(session: Session, place: str) -> float:
    """Have a cell time out; return how long afterwards it had ended on all ranks, in seconds."""
    began_s = time.time()
    with pytest.raises(RunTimedOut):
        session.run(code(place, "time.sleep(300)"), timeout_s=1.0)
    return time.time() - began_s - 1.0


ENDS: dict[str, Callable[[Session, str], float]] = {
    "raised": raised,
    "interrupted": interrupted,
    "timed_out": timed_out,
}


def works(session: Session) -> None:
    """Begin again on the same ranks."""
    result = session.run(f"{TORCH}dist.init_process_group()\ny = torch.ones(1)\ndist.all_reduce(y)\nint(y), kept")
    n = session.world_size
    assert [rank.value for rank in result.ranks.values()] == [f"({n}, {rank})" for rank in range(n)]
