"""A closed browser loses nothing, and a server that ends takes its kernels' ranks along, unless they are kept."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from processes import MARK, marked_processes
from ranks.kernels import eventually, without
from servers import Notebook, Server

import jupyter_ddl
from jupyter_ddl.runs.logs import log_files
from jupyter_ddl.runs.store import newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mpi

WITHIN_S = 10.0
START = "%load_ext jupyter_ddl\n%ddl start -n 2 --name served"


@pytest.fixture
def marked(tmp_path: Path) -> dict[str, str]:
    """Give variables by which a server's processes are known; its ranks have no TensorFlow to import."""
    return without(tmp_path, "tensorflow") | {MARK: f"{os.environ[MARK]}-{secrets.token_hex(3)}"}


@contextmanager
def serving(variables: dict[str, str]) -> Iterator[Server]:
    """Run a server; leave none of its processes behind."""
    with tempfile.TemporaryDirectory(prefix="ddl-server-") as folder:
        try:
            with Server(Path(folder), variables=variables) as server:
                yield server
        finally:
            for process in marked_processes(variables[MARK]):
                # One that was ending has ended.
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def started(server: Server, options: str = "") -> str:
    """Return a kernel of the server's that has started ranks."""
    with Notebook(server) as tab:
        tab.do(f"{START} {options}")
        return tab.id


def a_tab_closed_while_a_cell_runs(server: Server, kernel: str) -> None:
    with Notebook(server, kernel=kernel) as tab:
        cell = tab.send(
            "%%distributed\nimport time\nmine = rank\nfor step in range(40):\n"
            "    print('step', step, flush=True)\n    time.sleep(0.05)"
        )
        tab.wait_for_text(cell, "step 1")
    # No page listens. The cell runs to its end, and a tab opened later finds the kernel and its ranks.
    with Notebook(server, kernel=kernel) as tab:
        tab.do("%ddl pull mine")
        assert tab.do("print(mine)") == "{0: 0, 1: 1}\n"
    record = next(record for record in newest_first() if "step" in (record.path / "cell.py").read_text())
    assert record.state == "finished"
    logs = log_files(record.path)
    assert [logs[rank].read_text().splitlines() for rank in (0, 1)] == [[f"step {n}" for n in range(40)]] * 2


def test_a_killed_server_leaves_no_rank(marked: dict[str, str]) -> None:
    with serving(marked) as server:
        kernel = started(server)
        with Notebook(server, kernel=kernel) as tab:
            cell = tab.send("%%distributed\nimport time\nprint('begun', flush=True)\ntime.sleep(600)")
            tab.wait_for_text(cell, "begun")
            server.kill()
        # The kernel looks once a second whether its server lives.
        assert eventually(lambda: not marked_processes(marked[MARK]), WITHIN_S), marked_processes(marked[MARK])


def test_ranks_outlive_a_closed_tab_and_kept_ones_the_server_and_serve_the_next(marked: dict[str, str]) -> None:
    with serving(marked) as server:
        kernel = started(server, "--keep")
        a_tab_closed_while_a_cell_runs(server, kernel)
        with Notebook(server, kernel=kernel) as tab:
            tab.do("%%distributed\nkept = rank + 5")
        server.stop()
        assert eventually(lambda: not any(_is_kernel(process) for process in marked_processes(marked[MARK])), WITHIN_S)
        session = jupyter_ddl.attach("served")
        try:
            assert {rank: int(value) for rank, value in session.pull("kept").items()} == {0: 5, 1: 6}
        finally:
            session.stop()
        assert eventually(lambda: not marked_processes(marked[MARK]), WITHIN_S), marked_processes(marked[MARK])


def _is_kernel(process: psutil.Process) -> bool:
    return "ipykernel_launcher" in " ".join(process.cmdline())
