"""HOROVOD_TIMELINE=file holds the events of every cell; --timeline records those of one into its run's folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import cli, paths
from jupyter_ddl.errors import RankError, RunTimedOut
from jupyter_ddl.timeline.analysis import analyse
from tests.ranks.sizes import slow_but

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@pytest.fixture
def recorded(pair: Session, tmp_path: Path) -> Iterator[Path]:
    """A file for the timeline of what `pair` runs."""
    path = tmp_path / "timeline.json"
    pair.run(f"import os\nos.environ['HOROVOD_TIMELINE'] = {str(path)!r}")
    yield path
    pair.run("import horovod.tensorflow as hvd\nhvd.shutdown()\ndel os.environ['HOROVOD_TIMELINE']")


def test_every_cell_is_in_it(pair: Session, recorded: Path) -> None:
    def exchanges() -> int:
        events = json.loads(recorded.read_text(encoding="utf-8"))
        return sum(event.get("name") == "MPI_ALLREDUCE" for event in events)

    one = "import time, tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nhvd.allreduce(tf.ones(2))\n"
    pair.run("1 + 1")
    for number in range(2):
        pair.run(one)
        assert exchanges() == number + 1, "complete when the cell has ended"
    with pytest.raises(RankError, match="on the way"):
        pair.run(f"{one}if rank: raise ValueError('on the way')")
    with pytest.raises(RunTimedOut):
        pair.run(f"{one}if rank: time.sleep(60)\nhvd.allreduce(tf.ones(2))", timeout_s=1)
    pair.run(one)
    assert exchanges() == 5
    pair.run("2 + 2")
    assert exchanges() == 5
    begun = [event["ts"] for event in json.loads(recorded.read_text(encoding="utf-8")) if event.get("ph") == "B"]
    assert begun == sorted(begun), "on one clock"
    assert [file.name for file in recorded.parent.iterdir()] == ["timeline.json"]


MODEL = """
import time
import jupyter_ddl.keras as hvd
import keras
import numpy as np
hvd.init()
keras.utils.set_random_seed(7)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")

class Late(keras.callbacks.Callback):
    def __init__(self, until=12):
        super().__init__()
        self.until = until

    def on_train_batch_begin(self, batch, logs=None):
        if 5 <= batch < self.until and rank == world_size - 1:
            time.sleep(0.05)

x, y = np.ones((64, 8), "float32"), np.ones((64, 1), "float32")
"""
FIT = "model.fit(x, y, batch_size=4, epochs=1, verbose=0, callbacks=[Late()])"
# 48 steps: a machine that is busy for a second delays another rank in fewer than half of those that are late.
LONG_FIT = "model.fit(np.tile(x, (3, 1)), np.tile(y, (3, 1)), batch_size=4, verbose=0, callbacks=[Late(until=40)])"


@pytest.mark.parametrize("n", slow_but((2,), (2, 4)))
def test_a_rank_that_is_late_is_named_with_step_and_tensor(n: int, ranks: Callable[[int], Session]) -> None:
    session = ranks(n)
    session.run(MODEL)
    session.run(FIT)  # its steps are traced, which takes a rank longer than another
    without = session.run(FIT)
    result = session.run(LONG_FIT, timeline=True)
    folder = paths.runs_dir() / result.run
    assert not (paths.runs_dir() / without.run / "rank-0.timeline.json").exists()
    found = analyse(folder / "rank-0.timeline.json", range(47))
    assert (found.ranks, found.steps, found.is_cut_off) == (n, 47, False)
    # The first step has no beginning, and is not counted. A busy machine may delay another rank in some of the steps.
    delayed = [step for step in found.kept if 4 <= step.number < 39]
    late = [step.late for step in delayed if step.late is not None and step.late.by_us > 40_000]
    named = [one for one in late if one.rank == n - 1]
    assert len(named) > len(delayed) / 2
    assert {one.tensor for one in named} <= {one.name for one in found.tensors}
    assert found.lateness[n - 1].by_us > 40_000
    for step in found.kept:
        assert set(step.handed_us) == set(range(n))
    for one in range(n):
        lines = (folder / f"rank-{one}.steps.jsonl").read_text().splitlines()
        begin_us, end_us = json.loads(lines[5])
        assert (len(lines), end_us - begin_us > 40_000) == (48, True), "the others wait for it in the step"
    fifth = next(step for step in delayed if step.number == 4)
    # Horovod's times and the ranks' own are on one clock.
    assert found.began_s is not None
    assert begin_us < found.began_s * 1e6 + fifth.ready_us < end_us


def test_fifty_cells_leave_fifty_valid_files(pair: Session) -> None:
    one = "import tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nhvd.allreduce(tf.ones(2), name='one')"
    runs = [pair.run(one, timeline=True).run for _ in range(50)]
    for run in runs:
        folder = paths.runs_dir() / run
        events = json.loads((folder / "rank-0.timeline.json").read_text(encoding="utf-8"))
        assert sum(event.get("name") == "MPI_ALLREDUCE" for event in events) == 1
        assert not list(folder.glob("*.part"))


def test_the_users_own_file_and_the_runs_have_the_same(pair: Session, recorded: Path) -> None:
    one = "import tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nhvd.allreduce(tf.ones(2))"
    result = pair.run(one, timeline=True)
    ours = (paths.runs_dir() / result.run / "rank-0.timeline.json").read_text()
    assert "MPI_ALLREDUCE" in ours
    assert json.loads(ours) == json.loads(recorded.read_text())


def test_a_file_for_perfetto_has_all_ranks_on_one_clock(
    ranks: Callable[[int], Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = ranks(2)
    session.run(MODEL)
    result = session.run(FIT, timeline=True)
    target = tmp_path / "perfetto.json"
    assert cli.main(["timeline", result.run, "--perfetto", str(target)]) == 0
    events = json.loads(target.read_text())
    named = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    assert named == {0: "rank 0", 1: "rank 1", 2: "Horovod, as rank 0 noted it"}
    steps = [event for event in events if event.get("name") == "step 6"]
    exchanges = [event["ts"] for event in events if event.get("name") == "MPI_ALLREDUCE"]
    assert [event["pid"] for event in steps] == [0, 1]
    assert all(any(one["ts"] < at_us < one["ts"] + one["dur"] for at_us in exchanges) for one in steps)
    assert cli.main(["timeline", result.run]) == 0
    assert "15 steps on 2 ranks" in capsys.readouterr().out
    assert cli.main(["timeline", session.run("1").run]) != 0


@pytest.mark.slow
def test_what_tensorflows_profiler_records_stands_under_the_same_steps(
    ranks: Callable[[int], Session], tmp_path: Path
) -> None:
    session = ranks(2)
    session.run(MODEL)
    board = f"keras.callbacks.TensorBoard({str(tmp_path / 'board')!r} + str(rank), profile_batch=(4, 9))"
    result = session.run(FIT.replace("Late()", f"Late(), {board}"), timeline=True)
    target = tmp_path / "kernels.json"
    assert cli.main(["timeline", result.run, "--perfetto", str(target)]) == 0
    events = json.loads(target.read_text())
    for rank in range(2):
        own = [event for event in events if event.get("pid") == rank and event["ph"] == "X"]
        kernels = [event for event in own if "MatMul" in event["name"]]
        under = [
            step["name"]
            for step in own
            if step["name"].startswith("step ")
            and any(step["ts"] <= one["ts"] <= step["ts"] + step["dur"] for one in kernels)
        ]
        assert set(under) >= {"step 5", "step 6", "step 7"}, "it was on from the fourth batch to the ninth"
        assert "step 13" not in under
        assert list((tmp_path / f"board{rank}").rglob("*.xplane.pb")), "TensorBoard has it too"
    assert "tensorflow-trace" not in " ".join(
        path.name for path in (paths.runs_dir() / session.run(FIT, timeline=True).run).iterdir()
    )
