"""Faults of ranks that share process groups of PyTorch: the next group works, on the same ranks or on new ones."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from frameworks.blocked import BEGUN, SLACK_S, TORCH, raised, works

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost, RankError
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.protocol.events import Event


# A request to release comes by a channel of its own, which may be slower than the one of the cells.
LATE_RELEASES = """
import time
from jupyter_ddl.protocol.requests import MESSAGE_TYPE
handlers = get_ipython().kernel.control_handlers
on_control = handlers[MESSAGE_TYPE]

def late(stream, identities, message):
    if rank == 0 and message["content"]["type"] == "release":
        time.sleep(1)
    return on_control(stream, identities, message)

handlers[MESSAGE_TYPE] = late
"""


class Shown:
    """A view that keeps what it is shown."""

    text = ""

    def handle(self, event: Event) -> None:
        self.text += event.text if isinstance(event, OutputChunk) else ""

    def tick(self, now_s: float) -> None: ...

    def flush(self) -> None: ...


pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", ["all_reduce", "ddp"])
def test_again_and_again(torch_pair: Session, place: str, times: int) -> None:
    pids = [rank.pid for rank in torch_pair.ranks]
    took_s = []
    for _ in range(times):
        torch_pair.run(BEGUN)
        took_s.append(raised(torch_pair, place))
        works(torch_pair)
    print(f"{place}: released after {', '.join(f'{one * 1000:.0f}' for one in sorted(took_s))} ms")
    assert max(took_s) < SLACK_S
    assert [rank.pid for rank in torch_pair.ranks] == pids


def test_the_cell_after_a_release_prints_nothing_of_its_own(torch_pair: Session) -> None:
    """Looks for stalls, one a second, used a connection that the release had ended, at which torch prints a stack."""
    begin = TORCH + "import time\ndist.is_initialized() or dist.init_process_group()\n"
    exchange = "for _ in range(25):\n    dist.all_reduce(torch.ones(3)); time.sleep(0.1)\n"
    torch_pair.run(begin + exchange)
    with pytest.raises(RankError, match="on purpose"):
        torch_pair.run(begin + "if rank == 1:\n    raise ValueError('on purpose')\n" + exchange)
    after = torch_pair.run(begin + exchange)
    assert [rank.stderr for rank in after.ranks.values()] == ["", ""]


def test_groups_that_a_model_and_a_variable_hold_are_released(torch_pair: Session) -> None:
    torch_pair.run(f"{BEGUN}\nheld = dist.group.WORLD, dist.new_group([0, 1])\nmodels = [model]")
    assert raised(torch_pair, "ddp") < SLACK_S
    works(torch_pair)
    again = "models[0].module.weight.shape == (2, 4), len(held)"
    assert [rank.value for rank in torch_pair.run(again).ranks.values()] == ["(True, 2)"] * 2
    # In a group of the user's own, which is not the default one.
    torch_pair.run(f"{BEGUN}\nown = dist.new_group([0, 1])")
    began_s = time.monotonic()
    with pytest.raises(RankError, match="on purpose"):
        torch_pair.run("if rank == 1:\n    raise ValueError('on purpose')\ndist.all_reduce(x, group=own)")
    assert time.monotonic() - began_s < SLACK_S
    works(torch_pair)


def test_ranks_that_raise_together_keep_their_groups(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    with pytest.raises(RankError, match="undefined_name"):
        torch_pair.run("undefined_name")
    result = torch_pair.run("y = torch.ones(1)\ndist.all_reduce(y)\ny.item()")
    assert [rank.value for rank in result.ranks.values()] == ["2.0", "2.0"]


def test_unequal_numbers_of_collectives_end_the_groups_and_are_said(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    shown = Shown()
    # The first sends what nobody takes, and goes on.
    torch_pair.run("if rank == 0:\n    work = dist.broadcast(x, 0, async_op=True)", view=lambda _: shown)
    assert re.search(r"entered different numbers of collectives \(rank 0: \d+, rank 1: \d+\)", shown.text)
    with pytest.raises(RankError, match="has not been initialized"):
        torch_pair.run("dist.all_reduce(x)")
    works(torch_pair)


def test_a_request_to_end_groups_that_comes_after_the_next_cell_has_begun(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    torch_pair.run(LATE_RELEASES)
    try:
        torch_pair.run("if rank == 0:\n    work = dist.broadcast(x, 0, async_op=True)")
        result = torch_pair.run("dist.is_initialized()")
        assert [rank.value for rank in result.ranks.values()] == ["False", "False"]
        works(torch_pair)
        # The request has come meanwhile: it is of no run that is there.
        torch_pair.run("time.sleep(1.5)")
        result = torch_pair.run("dist.is_initialized()")
        assert [rank.value for rank in result.ranks.values()] == ["True", "True"]
    finally:
        torch_pair.run("handlers[MESSAGE_TYPE] = on_control")


def test_a_rank_that_is_killed_is_named_and_new_ranks_make_a_group(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    with pytest.raises(ClusterLost, match=r"rank 1 on .* was ended by signal 9"):
        torch_pair.run("import os, signal\nif rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(x)")
    torch_pair.wait_rebuilt()
    torch_pair.run(BEGUN)
    assert raised(torch_pair, "all_reduce") < SLACK_S
    works(torch_pair)


def test_tensors_of_different_sizes_are_the_likely_cause(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    with pytest.raises(ClusterLost, match="tensors of different sizes, at which gloo ends"):
        torch_pair.run("dist.all_reduce(torch.ones(2, dtype=torch.float32 if rank else torch.float64))")
    torch_pair.wait_rebuilt()


def test_a_rank_that_is_stopped_is_missed(torch_pair: Session) -> None:
    torch_pair.run(BEGUN)
    pid = torch_pair.ranks[1].pid
    stops = f"{TORCH}import os, signal\nif rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.all_reduce(x)"
    began_s = time.monotonic()
    with pytest.raises(ClusterLost, match="rank 1") as caught:
        torch_pair.run(stops, stalls=StallOptions(5, "abort"), timeout_s=60)
    print(f"after {time.monotonic() - began_s:.1f} s: {caught.value}")
    torch_pair.wait_rebuilt()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    torch_pair.run(BEGUN)
    works(torch_pair)


CUT_OFF = """
import sys
class Fails:
    def find_spec(self, name, path, target=None):
        if name == "torch.nn":
            raise OSError("no such library")
sys.meta_path.insert(0, Fails())
"""


def test_an_import_that_failed_in_the_background_is_told_and_leaves_no_half_made_torch(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CUT_OFF)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    session = jupyter_ddl.start(n=2, name="torch-cut-off", framework="torch", env={"PYTHONPATH": path})
    try:
        assert {warm.problem for warm in session.wait_warm().values()} == {"OSError: no such library"}
        for statement in ("import torch", "from torch.cuda import is_available", "import torch.distributed as dist"):
            with pytest.raises(
                RankError, match=r"torch is imported once in a process.*half-way \(OSError: no such lib"
            ):
                session.run(statement)
        assert [rank.value for rank in session.run("1 + rank").ranks.values()] == ["1", "2"]
    finally:
        session.stop()


def test_threads_that_import_torch_beside_the_background_import_get_all_of_it() -> None:
    session = jupyter_ddl.start(n=2, name="torch-threads", framework="torch")
    try:
        code = """
import importlib, threading
found = []

def look():
    import torch
    found.append(hasattr(torch, "cuda") and hasattr(torch, "nn"))

threads = [threading.Thread(target=look) for _ in range(3)]
for one in threads:
    one.start()
found.append(hasattr(importlib.import_module("torch"), "nn"))
for one in threads:
    one.join()
found
"""
        assert [rank.value for rank in session.run(code).ranks.values()] == ["[True, True, True, True]"] * 2
    finally:
        session.stop()
