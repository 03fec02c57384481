"""A cell whose ranks wait for others says so by itself: who waits for whom in what, and where the others are."""

from __future__ import annotations

import contextlib
import io
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from ranks.sizes import TWO_AND_FOUR

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.errors import RunStalled
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

HVD = "import tensorflow as tf, horovod.tensorflow as hvd, time\nhvd.init()\n"
ABORT = StallOptions(5, "abort")


def works(session: Session) -> None:
    total = session.world_size
    result = session.run(HVD + "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)), kept")
    assert [rank.value for rank in result.ranks.values()] == [f"({float(total)}, {rank})" for rank in range(total)]


def stalled(session: Session, code: str) -> str:
    """Run what stalls; return what the cell raises, and see that the next one works."""
    session.run(HVD + "kept = rank\nhvd.allreduce(tf.ones(2))")
    began_s = time.monotonic()
    with pytest.raises(RunStalled) as caught:
        session.run(HVD + code, stalls=ABORT, timeout_s=120)
    print(f"{session.world_size} ranks, told and ended after {time.monotonic() - began_s:.1f} s\n{caught.value}")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["show"]) == 0
    assert f"RunStalled: {caught.value}\n" in out.getvalue()
    works(session)
    return str(caught.value)


@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_a_rank_that_does_not_enter_is_named_with_its_line(ranks: Callable[[int], Session], n: int) -> None:
    session = ranks(n)
    session.wait_warm()
    # In a collective that Horovod has seen before, which its cache hides from its own inspector for longer.
    seen = "for _ in range(3): hvd.allreduce(tf.ones(2))\n"
    told = stalled(session, seen + "if rank == 1:\n    time.sleep(300)\nhvd.allreduce(tf.ones(2))")
    others = "Rank 0" if n == 2 else "Ranks 0, 2-3"
    waits = "waits" if n == 2 else "wait"
    assert re.match(r"The cell has stalled for [\d.]+ s: not every rank has entered\n", told)
    assert f"\n  HorovodAllreduce: {others.lower()} {waits} in it for rank 1\n" in told
    assert re.search(rf"\n{others} of {n} on .*\n  cell line 6: hvd\.allreduce\(tf\.ones\(2\)\)\n", told)
    assert re.search(rf"\nRank 1 of {n} on .*\n  cell line 5: time\.sleep\(300\)\n", told)
    assert told.endswith("The ranks were released, as --on-stall abort says.")


@pytest.mark.parametrize(
    ("code", "waiting", "where"),
    [
        pytest.param(
            "for _ in range(3): hvd.allreduce(tf.ones(2))\nwhile rank == 0: pass\nhvd.allreduce(tf.ones(2))",
            "HorovodAllreduce: rank 1 waits in it for rank 0",
            "cell line 4: while rank == 0: pass",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "hvd.broadcast(tf.ones(2), 0) if rank else hvd.allreduce(tf.ones(2))",
            "HorovodAllreduce: rank 0 waits in it for rank 1\n  HorovodBroadcast: rank 1 waits in it for rank 0",
            "horovod/tensorflow/mpi_ops.py",
            marks=pytest.mark.slow,
        ),
        (
            (
                "names = ['first', 'second'][:: 1 if rank else -1]\n"
                # Of an argument: TensorFlow's optimizer runs a collective of constants while it folds them.
                "@tf.function\ndef step(name, x): return hvd.allreduce(x, name=name)\n"
                "for name in names: step(name, tf.ones(2))"
            ),
            "first: rank 1 waits in it for rank 0\n  second: rank 0 waits in it for rank 1",
            "cell line 6: for name in names: step(name, tf.ones(2))",
        ),
        pytest.param(
            (
                "names = ['first', 'second'][:: 1 if rank else -1]\n"
                # Of constants: TensorFlow's optimizer runs it while it folds them, and once more after its error, when
                # this rank's Horovod may just have ended.
                "@tf.function\ndef step(name): return hvd.allreduce(tf.ones(2), name=name)\n"
                "for name in names: step(name)"
            ),
            "first: rank 1 waits in it for rank 0\n  second: rank 0 waits in it for rank 1",
            "cell line 6: for name in names: step(name)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a rank loops", "different collectives", "different order", "different order of constants"],
)
def test_what_stalls_is_told(pair: Session, code: str, waiting: str, where: str) -> None:
    told = stalled(pair, code)
    assert waiting in told
    assert where in told


def test_a_report_shows_once_under_the_cell_which_goes_on(notebook: Any, tmp_path: Path) -> None:
    code = (
        f"import os\n{HVD}while rank == 1 and not os.path.exists('{tmp_path}/told'): time.sleep(0.1)\n"
        "hvd.allreduce(tf.ones(2))\nprint('on')"
    )
    assert notebook.run(HVD, timeout_s=120).error is None
    cell = notebook.send(f"%%distributed --stall-after 5\n{code}").wait_for("The cell has stalled")
    time.sleep(1.0)  # for another report, were there one
    (tmp_path / "told").touch()
    cell.wait()
    assert cell.error is None, cell.told
    reports = [line for line in cell.lines if "The cell has stalled" in line]
    assert len(reports) == 1
    assert reports[0].startswith("[0-1] ")
    assert "cell line 5: while rank == 1 and not" in cell.text
    assert "stall_inspector" not in cell.text
    assert cell.lines[-1] == "[0-1] on"
    assert "stall_inspector" in notebook.execute("%ddl logs -r 0").text
    assert "The cell has stalled" in notebook.execute("%ddl show").text


def test_ranks_that_are_a_little_apart_are_not_told(pair: Session) -> None:
    result = pair.run(HVD + "if rank: time.sleep(1)\nhvd.allreduce(tf.ones(2))", stalls=ABORT)
    assert result.outcome == "finished"


def test_the_users_own_setting_wins(pair: Session) -> None:
    # Ours would be 6 s.
    setting = "import os\nos.environ['HOROVOD_STALL_CHECK_TIME_SECONDS'] = '1'\n"
    waits = HVD + "hvd.shutdown()\nhvd.init()\nif rank: time.sleep(3)\nhvd.allreduce(tf.ones(2))"
    try:
        result = pair.run(setting + waits, stalls=StallOptions(60))
        assert "stall_inspector" in (paths.runs_dir() / result.run / "rank-0.log").read_text()
    finally:
        pair.run("import os\nos.environ.pop('HOROVOD_STALL_CHECK_TIME_SECONDS', None)")
