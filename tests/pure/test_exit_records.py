"""Which of several hosts' ranks ended first, from what was recorded on each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.deaths import mpiexec_loss
from jupyter_ddl.cluster.exit_records import first_end, recorded
from jupyter_ddl.protocol.faults import MemoryExcess
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from pathlib import Path


def ran(folder: Path, rank: int, host: str, record: str | None) -> None:
    (folder / f"rank-{rank}.process").write_text(json.dumps({"rank": rank, "host": host, "pid": 100 + rank}))
    if record is not None:
        (folder / f"rank-{rank}.exit").write_text(record + "\n")


def test_none_that_ended_by_itself(tmp_path: Path) -> None:
    ran(tmp_path, 0, "a", None)
    # A full disk.
    ran(tmp_path, 1, "a", "")
    assert first_end(tmp_path, {}) is None


def test_a_note_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    ran(tmp_path, 1, "a", "3 1000.0 0")
    (tmp_path / "rank-0.process").write_text("{")
    (tmp_path / "rank-2.process").write_text('{"rank": 2, "host": "a", "pid": 7}')
    (tmp_path / "rank-2.exit").mkdir()
    end = first_end(tmp_path, {})
    assert end is not None
    assert (end.death.rank, end.death.status) == (1, 3)


def test_a_signal_comes_before_those_that_lost_a_peer_by_it(tmp_path: Path) -> None:
    ran(tmp_path, 0, "a", "14 1000.10 0")
    ran(tmp_path, 2, "b", "137 1000.20 1")
    ran(tmp_path, 3, "b", "134 1000.05 0")
    end = first_end(tmp_path, {})
    assert end is not None
    assert (end.death.rank, end.death.host, end.death.pid, end.death.signum, end.oom_kills) == (2, "b", 102, 9, 1)


def test_a_rank_that_its_witness_ended_for_its_memory_is_told_so(tmp_path: Path) -> None:
    ran(tmp_path, 0, "a", "14 1000.10 0")
    ran(tmp_path, 2, "b", "137 1000.20 0")
    excess = MemoryExcess(2**30, 1, 2**29, "the profile small")
    (tmp_path / "rank-2.excess").write_text(json.dumps(asdict(excess)))
    end = first_end(tmp_path, {})
    assert end is not None
    assert (end.death.rank, end.excess) == (2, excess)


def test_clocks_are_corrected(tmp_path: Path) -> None:
    ran(tmp_path, 0, "a", "3 1000.0 0")
    # Its clock is ten minutes ahead: it ended a second earlier.
    ran(tmp_path, 1, "b", "4 1599.0 0")
    end = first_end(tmp_path, {"b": 600.0})
    assert end is not None
    assert (end.death.rank, end.death.status, end.at_s) == (1, 4, 999.0)


@pytest.mark.parametrize(
    ("program", "status", "signum"),
    [("raise SystemExit(3)", 3, None), ("import os; os.kill(os.getpid(), 9)", None, 9), ("", 0, None)],
)
def test_the_shell_records_an_end_and_ends_alike(
    tmp_path: Path, program: str, status: int | None, signum: int | None
) -> None:
    ran(tmp_path, 5, "a", None)
    command = [*recorded(tmp_path), sys.executable, "-c", program]
    finished = subprocess.run(command, env={"PMIX_RANK": "5", "PATH": "/bin:/usr/bin"}, check=False, timeout=60)
    assert finished.returncode == (status if signum is None else -signum)
    end = first_end(tmp_path, {})
    assert end is not None
    assert (end.death.rank, end.death.status, end.death.signum, end.oom_kills) == (5, status, signum, 0)


def test_a_host_that_does_not_share_the_folder_records_in_its_own(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    apart = {"x": "/nowhere", os.uname().nodename: str(tmp_path / "own"), f"{os.uname().nodename}2": "/nowhere"}
    command = [*recorded(tmp_path, apart), "/bin/sh", "-c", "exit 3"]
    subprocess.run(command, env={"PMIX_RANK": "5", "PATH": "/bin:/usr/bin"}, check=False, timeout=60)
    assert (tmp_path / "own/rank-5.exit").read_text().startswith("3 ")
    assert not (tmp_path / "rank-5.exit").exists()


# The texts of prterun 5.0.11.
GONE = """
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-login-52@0,0] on node login
  Remote daemon: [prterun-login-52@0,2] on node nodeb

This is usually due to either a failure of the TCP network
"""
SILENT = """
A daemon failed to report back after being spawned. This could
be due to several factors, including inability to find the

  Local host:    login
  Remote host:   nodeb
  Daemon exit status: 255
"""


@pytest.mark.parametrize("output", [GONE, SILENT])
def test_a_lost_host_is_named(output: str) -> None:
    fault = mpiexec_loss(1, output, 5.0)
    assert (fault.kind, fault.subject, fault.host) == ("lost", "host", "nodeb")
    assert describe(fault).startswith("nodeb was lost: mpiexec reaches its daemon there no more")
