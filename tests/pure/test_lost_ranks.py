"""What mpiexec's own report says of the rank that ended first, and what is made of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.deaths import (
    Death,
    OutOfMemoryKills,
    likely_cause,
    loss_of,
    mpiexec_loss,
    named_by,
    read_report,
)
from jupyter_ddl.kernel.lost_ranks import with_last_seen
from jupyter_ddl.protocol.events import MetricsSample
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# As Open MPI 5.0.11, Open MPI 4.1, MPICH's Hydra and Intel MPI print it.
SIGNALLED = "prterun noticed that process rank 1 with PID 30835 on node vm exited on\nsignal 9 (Killed).\n"
EXITED = "The first process to do so was:\n\n   Process name: [prterun-vm-30974@1,1]\n   Exit code:    3\n"
OPEN_MPI_4 = "mpirun noticed that process rank 12 with PID 0 on node n-1 exited on signal 11 (Segmentation fault).\n"
FINALIZE = "prterun has exited due to process rank 2 with PID 0 on node vm exiting\nimproperly. There are three\n"
ABORT = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n  Proc: [[6,1],1]\n  Errorcode: 7\n"
HYDRA = (
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 77 RUNNING AT n-2\n=   EXIT CODE: 9\n"
    "=   CLEANING UP REMAINING PROCESSES\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"
)
INTEL = "=   RANK 3 PID 78 RUNNING AT n-3\n=   KILLED BY SIGNAL: 6 (Aborted)\n"


@pytest.mark.parametrize(
    ("output", "death"),
    [
        (SIGNALLED, Death(1, "vm", 30835, 9, None)),
        (EXITED, Death(1, None, None, None, 3)),
        (OPEN_MPI_4, Death(12, "n-1", None, 11, None)),
        (FINALIZE, Death(2, "vm", None, None, None)),
        (ABORT + FINALIZE, Death(1, None, None, None, 7)),
        (HYDRA, Death(None, "n-2", 77, 9, None)),
        (INTEL, Death(3, "n-3", 78, 6, None)),
        ("mpiexec: no such option\n", None),
    ],
)
def test_the_first_rank_to_end_is_read_from_the_report(output: str, death: Death | None) -> None:
    assert read_report(f"printed before\n{output}printed after\n") == death


def test_an_end_that_names_no_rank_is_told_with_what_was_printed() -> None:
    def told(status: int, output: str) -> str:
        return describe(mpiexec_loss(status, output, 0.0))

    assert told(-9, "last\n") == "mpiexec was ended by signal 9 (Killed), and its ranks with it.\nlast"
    assert told(213, "last\n") == "mpiexec ended with status 213.\nlast"
    lost = told(1, SIGNALLED)
    assert lost.startswith("rank 1 on vm was ended by signal 9 (Killed). Likely cause: a `kill -9`, or ")
    assert lost.partition("\n")[2].startswith("prterun noticed")


def test_kills_for_want_of_memory_are_counted_from_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 5\noom_kill 2\n")
    kills = OutOfMemoryKills(tmp_path)
    assert kills.count() == 0
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 5\noom_kill 3\n")
    assert kills.count() == 1


def test_the_likely_cause_comes_from_what_is_known() -> None:
    def told(signum: int, oom_kills: int = 0, words: Sequence[str] = ()) -> str:
        fault = loss_of(Death(1, "vm", 7, signum, None), 0.0, oom_kills=oom_kills)
        return describe(with_last_seen(fault, None, words)).partition("Likely cause: ")[2]

    assert "out-of-memory killer ran" in told(signal.SIGKILL, 1)
    assert "no out-of-memory kill was counted" in told(signal.SIGKILL)
    words = ["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"]
    assert "it could get no more memory ('what():  std::bad_alloc')" in told(signal.SIGABRT, 0, words)
    assert "a check in C or C++ code failed" in told(signal.SIGABRT, 0, ["Check failed: x > 0"])
    words = [
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "  what():  [enforce fail at /gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.",
    ]
    assert "tensors of different sizes" in told(signal.SIGABRT, 0, words)
    assert "op.preamble.length <= op.nbytes. 8 vs 4" in told(signal.SIGABRT, 0, words)
    assert likely_cause(None, 0) == (None, "")


def test_a_loss_is_told_with_the_memory_that_was_last_seen() -> None:
    lost = loss_of(Death(1, "vm", 7, 9, None), 12.0, oom_kills=1)
    last = MetricsSample(
        "run", 1, 11.5, 90.0, 3 * 2**29, gpu_memory_used_bytes=13 * 2**30, gpu_memory_total_bytes=15 * 2**30
    )
    assert describe(with_last_seen(lost, last)).startswith(
        "rank 1 on vm was ended by signal 9 (Killed). 0.5 s before it had 1.5 GiB of memory, and its GPU 13 GiB of "
        "15 GiB in use. Likely cause: the Linux kernel ended it for lack of memory"
    )


def test_ranks_on_two_hosts_with_the_same_pid_are_told_apart() -> None:
    ranks = {rank: RankReady(rank, 3, 0, host, 238, "CPU", 1) for rank, host in enumerate(("nodea", "nodeb"))}
    ranks[2] = RankReady(2, 3, 1, "nodeb", 239, "CPU", 1)
    by_number = loss_of(Death(1, "nodeb", 238, signal.SIGKILL, None), 5.0)
    assert named_by(by_number, ranks) == ranks[1]
    # MPICH names a process and its host, not the rank.
    assert named_by(loss_of(Death(None, "nodeb", 238, 9, None), 5.0), ranks) == ranks[1]
    # A host by another name than its own.
    assert named_by(loss_of(Death(None, "10.0.0.2", 239, 9, None), 5.0), ranks) == ranks[2]
    assert named_by(loss_of(Death(None, "10.0.0.2", 238, 9, None), 5.0), ranks) is None
    assert named_by(loss_of(Death(7, "nodeb", 238, 9, None), 5.0), ranks) is None
