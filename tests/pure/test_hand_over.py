"""What ranks on several hosts must know comes by mpiexec's standard input, and where their files are depends on it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.cluster.hand_over import HandOver
from jupyter_ddl.engine import hand_over
from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.engine.host_folder import HostFolder
from jupyter_ddl.host import run_module
from jupyter_ddl.host.process_tree import STDIN
from jupyter_ddl.host.run_files import RunFiles

if TYPE_CHECKING:
    from pathlib import Path

CAT = [sys.executable, "-c", "import sys; print(sys.stdin.read(), end='')"]


def test_what_is_given_waits_for_the_program_that_reads_it() -> None:
    over = HandOver()
    over.give({"key": "secret"})
    command = run_module.command("jupyter_ddl.host.process_tree", f"{STDIN}{over.file}", *CAT)
    read = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    assert read.stdout == '{"key": "secret"}\n'
    over.close()
    over.close()


class World:
    """Rank 0 of a world where a broadcast is done at the second look."""

    rank, host = 0, "node-a"

    def __init__(self) -> None:
        self.looks = 0
        self.communicator = SimpleNamespace(Ibcast=lambda _: SimpleNamespace(Test=self.look))

    def look(self) -> bool:
        self.looks += 1
        return self.looks > 1


@pytest.mark.parametrize("lines", [b'{"key": "k"}\n', b""])
def test_rank_0_reads_it_and_the_others_get_it(lines: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    os.write(writes, lines)
    os.close(writes)
    world: Any = World()
    with os.fdopen(reads) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        if lines:
            assert hand_over.handed_over(world) == '{"key": "k"}'
            return
        with pytest.raises(SystemExit, match=r"Rank 0 on node-a: the lease ended before it said where the controller"):
            hand_over.handed_over(world)


def test_a_host_that_shares_no_folder_has_its_own(tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path / "cluster"), "apart": {"node-b": str(tmp_path / "own")}}
    shared = HostFolder.of_this_host(settings, "node-a")
    assert (shared.log_dir, shared.of_run("/runs/1")) == (tmp_path / "cluster/log", "/runs/1")
    assert not (tmp_path / "cluster").exists()
    own = HostFolder.of_this_host(settings, "node-b")
    assert own.log_dir == tmp_path / "own/log"
    assert own.connection_file.parent.is_dir()
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    begun: list[str | None] = []
    journal = Journal(1, lambda _: None, RunFiles(1), own)
    journal.when_begun(begun.append)
    journal.begin("run-1", "/somewhere/run-1")
    journal.begin("run-2", None)
    assert begun == [str(tmp_path / "own/runs/run-1"), None]
    assert (tmp_path / "own/runs/run-1/rank-1.log").exists()
