"""All options at once, as code on real ranks sees them: tests/pure/test_cell_options.py has each by itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions, StallOptions

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

TIMEOUT_S = 240.0
SEEN = "from jupyter_ddl.engine import run_context\nprint(run_context.options())"
# With --auto only rank 0's output shows.
WRITES = """
from mpi4py import MPI
from jupyter_ddl.engine import run_context
with open(f"seen-{MPI.COMM_WORLD.rank}", "w") as file:
    file.write(str(run_context.options()))
"""


def test_a_cells_options_are_whole_on_each_rank(pair: Session, tmp_path: Path) -> None:
    options = CellOptions(
        timeout_s=TIMEOUT_S,
        auto=AutoOptions(scale_lr="sqrt", warmup_epochs=1.5),
        sample_every_s=0.5,
        stalls=StallOptions(7.0, "abort"),
        checkpoint=str(tmp_path),
        on_drift="warn",
        above=3,
        count=12,
    )
    result = pair.submit(SEEN, None, options).wait()
    assert [result.ranks[rank].stdout for rank in (0, 1)] == [f"{options}\n"] * 2
    # The next cell has its own.
    assert pair.run(SEEN, independent=True).ranks[1].stdout == f"{CellOptions(independent=True)}\n"


def test_a_scripts_options_are_whole_on_each_rank(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WRITES)
    words = ["-n", "2", "--auto", "--batch", "global", "--checkpoint", "saved", "--on-drift", "warn", "script.py"]
    child = subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "run", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    seen = CellOptions(auto=AutoOptions("global"), checkpoint=str(tmp_path / "saved"), on_drift="warn")
    assert [(tmp_path / f"seen-{rank}").read_text() for rank in (0, 1)] == [str(seen)] * 2
