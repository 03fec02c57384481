"""Ranks of PyTorch that wait for others say so by themselves: in which collective, and for whom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from frameworks.blocked import BEGUN, PLACES, TORCH, works
from ranks.sizes import slow_but

from jupyter_ddl.errors import RunStalled
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

ABORT = StallOptions(5, "abort")
# As the report names what the first rank waits in.
NAMES = {
    "all_reduce": "all_reduce of float32 [2]",
    "wait": "a collective of torch.distributed",
    "barrier": "barrier",
    "object": "all_gather_object",
    "ddp": "the gradients of backward()",
    "init": "init_process_group",
    "new_group": "new_group",
}


def stalled(session: Session, code: str) -> str:
    session.run(BEGUN)
    with pytest.raises(RunStalled) as caught:
        session.run(code, stalls=ABORT, timeout_s=60)
    print(caught.value)
    works(session)
    return str(caught.value)


@pytest.mark.parametrize("place", slow_but({"all_reduce", "ddp", "init"}, PLACES))
def test_a_rank_that_does_not_enter_is_named(torch_pair: Session, place: str) -> None:
    told = stalled(torch_pair, f"if rank == 1:\n    time.sleep(300)\n{PLACES[place]}")
    assert re.match(r"The cell has stalled for [\d.]+ s: not every rank has entered\n", told)
    assert f"\n  {NAMES[place]}: rank 0 waits in it for rank 1\n" in told
    assert re.search(r"\nRank 1 of 2 on .*\n  cell line 2: time\.sleep\(300\)\n", told)
    assert told.endswith("The ranks were released, as --on-stall abort says.")


def test_a_rank_that_has_ended_the_cell_is_named(torch_pair: Session) -> None:
    told = stalled(torch_pair, "time.sleep(2)\nif rank == 0:\n    dist.barrier()")
    assert "\n  barrier: rank 0 waits in it for rank 1\n" in told


@pytest.mark.slow
def test_a_group_of_some_names_its_own_ranks(torch_ranks: Callable[[int], Session]) -> None:
    four = torch_ranks(4)
    waits = "if rank == 3:\n    time.sleep(300)\nleft, right = dist.new_group([0, 1]), dist.new_group([2, 3])"
    told = stalled(four, waits)
    assert re.search(r"\n  new_group: .* for rank 3\n", told)
    made = "left, right = dist.new_group([0, 1]), dist.new_group([2, 3])\n"
    told = stalled(four, f"{made}if rank == 3:\n    time.sleep(300)\nrank > 1 and dist.all_reduce(x, group=right)")
    assert re.search(r"\n  all_reduce of float32 \[2\]: .* for rank 3\n", told)


def test_the_first_rank_is_missed_before_it_serves_the_store(torch_ranks: Callable[[int], Session]) -> None:
    session = torch_ranks(2)
    session.restart()
    with pytest.raises(RunStalled, match="init_process_group: rank 1 waits in it for rank 0"):
        session.run(f"{TORCH}time.sleep(0 if rank else 300)\ndist.init_process_group()", stalls=ABORT, timeout_s=60)


def test_ranks_that_are_late_are_no_stall(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    late = "for _ in range(5):\n    time.sleep(rank)\n    dist.all_reduce(x)\n"
    torch_pair.run(late, stalls=ABORT)


def test_ranks_that_only_send_and_receive_are_not_compared(torch_ranks: Callable[[int], Session]) -> None:
    four = torch_ranks(4)
    four.run(BEGUN)
    four.run("dist.send(x, 1) if rank == 0 else dist.recv(x, 0) if rank == 1 else None\ntime.sleep(3)", stalls=ABORT)
    # The groups are still there: their ranks are not apart.
    four.run("dist.all_reduce(x)")
