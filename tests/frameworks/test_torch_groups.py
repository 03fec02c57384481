"""torch.distributed on real ranks: started as torchrun starts it, and released where it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from frameworks.blocked import BEGUN, ENDS, PLACES, SLACK_S, TORCH, works
from ranks.sizes import slow_but

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session


pytestmark = pytest.mark.mpi


def values(session: Session, code: str) -> list[str | None]:
    return [rank.value for rank in session.run(TORCH + code).ranks.values()]


def pids(session: Session) -> list[int]:
    return [rank.pid for rank in session.ranks]


def test_a_group_needs_no_argument_and_a_cell_may_run_again(torch_pair: Session) -> None:
    code = "dist.init_process_group()\nx = torch.ones(2) * (rank + 1)\ndist.all_reduce(x)\nx.tolist()"
    for _ in range(3):
        assert values(torch_pair, code) == ["[3.0, 3.0]"] * 2
    assert values(torch_pair, "dist.get_rank(), dist.get_world_size()") == ["(0, 2)", "(1, 2)"]


def test_ranks_have_torchruns_variables(torch_pair: Session) -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    asked = f"import os\n[os.environ[name] for name in {names}]"
    assert values(torch_pair, asked) == [str([str(rank), "2", str(rank), "2", "0", "127.0.0.1"]) for rank in range(2)]
    names = ("ROLE_RANK", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    names += ("TORCHELASTIC_MAX_RESTARTS", "ROLE_NAME")
    asked = f"import os\n[os.environ[name] for name in {names}]"
    assert values(torch_pair, asked) == [str([str(rank), "2", "1", "0", "0", "default"]) for rank in range(2)]


QUICK = {f"{place}-raised" for place in PLACES} | {"all_reduce-interrupted", "ddp-interrupted", "all_reduce-timed_out"}


@pytest.mark.parametrize("case", slow_but(QUICK, [f"{place}-{end}" for place in PLACES for end in ENDS]))
def test_a_blocked_rank_is_released_and_the_next_group_works(torch_pair: Session, case: str) -> None:
    place, end = case.split("-")
    torch_pair.run(BEGUN)
    before = pids(torch_pair)
    took_s = ENDS[end](torch_pair, place)
    print(f"{place}, {end}: released after {took_s * 1000:.0f} ms")
    assert took_s < SLACK_S
    works(torch_pair)
    assert pids(torch_pair) == before


# NCCL may take long to end. Here the end of all groups does until it is let go.
SLOW_END = (
    TORCH
    + """
import threading
from jupyter_ddl.engine.collectives import torch_groups
c10d = dist.distributed_c10d
let_go, stock_end, torch_groups._END_S = threading.Event(), c10d._abort_process_group, 0.5
c10d._abort_process_group = lambda *args: let_go.wait(60) and stock_end(*args)
"""
)


def test_no_group_is_made_while_a_release_still_ends_the_last_ones(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    torch_pair.run(SLOW_END)
    with pytest.raises(RankError, match="ValueError"):
        torch_pair.run("if rank == 0: raise ValueError\ndist.barrier()")
    with pytest.raises(RankError, match="made when the groups of the cell before have ended"):
        torch_pair.run("dist.init_process_group()")
    torch_pair.run("let_go.set()\nc10d._abort_process_group, torch_groups._END_S = stock_end, 30.0")
    works(torch_pair)


def test_a_cell_on_some_of_the_ranks_makes_no_group(torch_pair: Session) -> None:
    values(torch_pair, "dist.is_initialized() and dist.destroy_process_group()")
    with pytest.raises(RankError, match="A process group is made by all ranks together"):
        torch_pair.run(f"{TORCH}dist.init_process_group()", ranks=[0])


def test_four_ranks(torch_ranks: Callable[[int], Session]) -> None:
    four = torch_ranks(4)
    four.run(BEGUN)
    assert ENDS["raised"](four, "ddp") < SLACK_S
    works(four)


SLOW_RELEASE = """
import threading, time
from jupyter_ddl.engine.collectives import sockets
stock = sockets.connections

def slow(*args, **kwargs):
    if threading.current_thread().name == "jupyter_ddl torch release":
        time.sleep(1 + rank)  # on the one that raised it ends after the cell
    return stock(*args, **kwargs)

sockets.connections = slow
"""


def test_a_release_that_is_slow_does_not_end_the_next_cells_groups(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    torch_pair.run(SLOW_RELEASE)
    try:
        for _ in range(2):
            with pytest.raises(RankError, match="on purpose"):
                torch_pair.run("if rank: raise ValueError('on purpose')\ndist.all_reduce(x)")
            torch_pair.run(f"{BEGUN}dist.all_reduce(x)\nassert x.tolist() == [3, 3]")
    finally:
        torch_pair.run("sockets.connections = stock")


@pytest.mark.parametrize(("version", "is_refused"), [("2.6.0+cu124", True), ("2.7.0a0+ecf3bae40a.nv25.02", False)])
def test_a_version_whose_stalls_cannot_be_named_is_refused(
    torch_pair: Session, version: str, *, is_refused: bool
) -> None:
    code = f"{TORCH}stock, torch.__version__ = torch.__version__, torch.torch_version.TorchVersion({version!r})\n"
    try:
        if is_refused:
            with pytest.raises(RankError, match=r"need torch 2\.7 or a later one\. Received: torch 2\.6\.0\+cu124"):
                torch_pair.run(f"{code}dist.init_process_group()")
        else:
            torch_pair.run(f"{code}dist.init_process_group()")
    finally:
        torch_pair.run("torch.__version__ = stock")
    assert values(torch_pair, "dist.init_process_group()\ndist.get_world_size()") == ["2", "2"]
