"""Cells that take away what the rank itself needs end all the same: with their error, and the next one runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import kernel, without

from jupyter_ddl import paths
from jupyter_ddl.errors import RankError
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

TIMEOUT_S = 20.0
NO_MORE_FILES = """
import resource
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
open("/dev/null")
"""
FILES_AGAIN = "resource.setrlimit(resource.RLIMIT_NOFILE, limits)"


@pytest.fixture
def session(bare: Session) -> Session:
    return bare


def test_cells_of_a_rank_that_can_open_no_more_files(session: Session) -> None:
    with pytest.raises(RankError, match="Too many open files"):
        session.run(NO_MORE_FILES, timeout_s=TIMEOUT_S)
    assert session.run("rank + 1", timeout_s=TIMEOUT_S, sample_every_s=0.01).ranks[1].value == "2"
    with pytest.raises(RankError, match="Too many open files"):
        session.run("1", auto=AutoOptions(), timeout_s=TIMEOUT_S)
    session.run(FILES_AGAIN, timeout_s=TIMEOUT_S)
    assert session.run("rank + 1", timeout_s=TIMEOUT_S).ranks[1].value == "2"


def test_cells_of_a_rank_whose_modules_a_cell_has_spoiled(session: Session) -> None:
    told = session.run("import threading\nthreading.Thread = None", timeout_s=TIMEOUT_S)
    assert "the cell replaced threading.Thread, without which" in told.ranks[1].stderr
    assert session.run("threading.Thread is not None", timeout_s=TIMEOUT_S).ranks[1].value == "True"
    assert session.run("rank + 1", timeout_s=TIMEOUT_S).ranks[1].value == "2"


def test_a_cell_that_closes_standard_output_and_prints(session: Session) -> None:
    with pytest.raises(RankError, match="Bad file descriptor"):
        session.run("import os\nos.close(1)\nprint('nowhere')", timeout_s=TIMEOUT_S)
    told = session.run("print('told')\nos.system('echo by a child')\nrank + 1", timeout_s=TIMEOUT_S)
    assert told.ranks[1].value == "2"
    assert (paths.runs_dir() / told.run / "rank-1.log").read_text() == "told\nby a child\n"
    cpu_s = "import time\nbefore = time.process_time()\ntime.sleep(1)\ntime.process_time() - before"
    assert float(session.run(cpu_s, timeout_s=TIMEOUT_S).ranks[0].value) < 0.3


# The notebook's own kernel has used up its files: its cells go on, only the record of them cannot be written.
KERNEL_WITHOUT_FILES = """
import resource, time, jupyter_ddl
from jupyter_ddl.errors import DdlError
from jupyter_ddl.views.fault import render_process
session = jupyter_ddl.start(n=2, name="files")
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
answer = []
for code in ("rank + 1", "1 / rank", "import time; time.sleep(60)", "rank + 1"):
    try:
        answer.append(session.run(code, timeout_s=0.5 if "sleep" in code else 20.0).ranks[1].value)
    except DdlError as error:
        answer.append(type(error).__name__)
supervisor = session._cluster.supervisor
supervisor._heard_s.clear()
answer.append(render_process(supervisor.state_of(1)))
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
answer.append(session.run("rank + 1").ranks[1].value)
session.stop()
"""


def test_cells_of_a_kernel_that_can_open_no_more_files(tmp_path: Path) -> None:
    with kernel(without(tmp_path, "tensorflow")) as other:
        *cells, state, last = other.do(KERNEL_WITHOUT_FILES)
    assert cells == ["2", "RankError", "RunTimedOut", "2"]
    assert state.endswith("cannot be looked at: Too many open files")
    assert last == "2"
