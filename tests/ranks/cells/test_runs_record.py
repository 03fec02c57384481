"""A run's folder holds all that happened, however its kernel, its disk and its ranks fared."""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, eventually, without
from ranks.sizes import slow_but

from jupyter_ddl import attach, paths, start
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RankFinished, RunFinished, RunStarted
from jupyter_ddl.runs import stragglers
from jupyter_ddl.runs.reading import read_events, run_events
from jupyter_ddl.runs.store import read_record
from jupyter_ddl.views.run_output import RUN_MIME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


def spans(folder: Path, rank: int) -> list[list[int]]:
    return [json.loads(line) for line in (folder / f"rank-{rank}.stderr.jsonl").read_text().splitlines()]


def text_of(folder: Path, rank: int) -> str:
    """Return what a replay shows of a rank's output."""
    return "".join(e.text for e in run_events(folder) if isinstance(e, OutputChunk) and e.rank == rank)


def folder_of(result: object) -> Path:
    return paths.runs_dir() / result.run  # type: ignore[attr-defined]


def test_a_run_leaves_a_whole_record(session: Session) -> None:
    result = session.run(
        "import os, time\nprint('out', rank)\ntime.sleep(0.3)\nos.write(2, b'err\\n')\ntime.sleep(0.3)\nprint('end')"
    )
    folder = folder_of(result)
    ranks = list(range(session.world_size))
    record = json.loads((folder / "run.json").read_text())
    assert record["ranks"] == ranks
    assert record["outcome"] == "finished"
    assert record["session"]["pid"] == os.getpid()
    assert record["options"] == {
        "timeout_s": None,
        "independent": False,
        "auto": None,
        "stalls": asdict(StallOptions()),
        "checkpoint": None,
        "above": 0,
        "on_drift": "stop",
        "timeline": False,
        "memory": None,
    }
    assert (folder / "cell.py").read_text().startswith("import os, time")
    events = list(read_events(folder / "events.jsonl"))
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    for rank in ranks:
        log = (folder / f"rank-{rank}.log").read_bytes()
        assert log == f"out {rank}\nerr\nend\n".encode()
        assert b"".join(log[start : start + length] for start, length in spans(folder, rank)) == b"err\n"
        own = list(read_events(folder / f"rank-{rank}.events.jsonl"))
        assert [event.n for event in own] == list(range(1, len(own) + 1))
        assert isinstance(own[-1], RankFinished)
        assert [event for event in events if getattr(event, "n", 0) and event.rank == rank] == own


def test_a_folder_that_cannot_be_written_is_told_once_and_the_cell_runs(notebook: object, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    notebook.execute(
        f"import os; before = os.environ['JUPYTER_DDL_RUNS']; os.environ['JUPYTER_DDL_RUNS'] = '{tmp_path}/file'"
    )  # type: ignore[attr-defined]
    try:
        cell = notebook.run("print('it ran')\nrank * 0")  # type: ignore[attr-defined]
    finally:
        notebook.execute("os.environ['JUPYTER_DDL_RUNS'] = before")  # type: ignore[attr-defined]
    assert cell.error is None
    assert "[0-1] it ran" in cell.lines
    told = [line for line in cell.lines if "not recorded" in line]
    assert len(told) == 1
    assert "Set JUPYTER_DDL_RUNS to a folder" in cell.text


def test_a_full_disk_is_told_and_the_cell_goes_on(pair: Session, small_disk: Path) -> None:
    result = pair.run("for i in range(20_000): print('line', i, 'of', rank)\nrank")
    assert result.outcome == "finished"
    assert [result.ranks[rank].value for rank in (0, 1)] == ["0", "1"]
    told = [result.ranks[rank].stderr for rank in (0, 1)]
    assert any("ends here: No space left on device. The cell continues." in text for text in told)
    assert all(text.count("No space left") <= 1 for text in told)


CELL = """
import time
for step in range(20):
    print('step', step, 'of rank', rank, flush=True)
    time.sleep(0.05)
rank
"""


@pytest.mark.parametrize("away_s", [0.5, pytest.param(6, marks=pytest.mark.slow)])
def test_a_kernel_that_is_killed_mid_run_costs_nothing_of_the_record(other: Kernel, away_s: float) -> None:
    other.do("import jupyter_ddl\ns = jupyter_ddl.start(n=2, name='kept', keep=True)")
    answer = other.do(
        f"f = s.submit({CELL!r}); f.follow_in_background()\nimport time; time.sleep(0.5)\nanswer = f.run.id"
    )
    killed = paths.runs_dir() / answer
    other.kill()
    time.sleep(away_s)  # the ranks go on meanwhile, or end, and nobody listens
    session = attach("kept")
    try:
        assert eventually(lambda: "outcome" in json.loads((killed / "run.json").read_text()))
        whole = session.run(CELL)
    finally:
        session.stop()
    uninterrupted = folder_of(whole)
    for rank in (0, 1):
        assert (
            text_of(killed, rank)
            == text_of(uninterrupted, rank)
            == "".join(f"step {step} of rank {rank}\n" for step in range(20))
        )
    kinds = [[event.type for event in read_events(folder / "events.jsonl")] for folder in (killed, uninterrupted)]
    assert [set(kind) for kind in kinds] == [set(kinds[1])] * 2
    assert kinds[0][0] == "run_started"
    assert kinds[0][-1] == "run_finished"
    assert json.loads((killed / "run.json").read_text())["outcome"] == "finished"
    # What the ranks took, and not until somebody looked.
    record = json.loads((killed / "run.json").read_text())
    ends_s = [event.at_s for event in read_events(killed / "events.jsonl") if isinstance(event, RankFinished)]
    assert record["seconds"] == pytest.approx(max(ends_s) - record["start_s"], abs=0.001)


FIT = """
import keras, numpy as np, time
import jupyter_ddl.keras as hvd
hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(8)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", metrics=["mae"])
def batches():
    while True:
        time.sleep({sleep})
        yield np.ones((16, 4), "f4"), np.ones((16, 8), "f4")
model.fit(batches(), steps_per_epoch={steps}, epochs=2, verbose=0);
"""


def samples_of(result: object) -> dict[int, list[MetricsSample]]:
    events = [e for e in run_events(folder_of(result)) if isinstance(e, MetricsSample) and e.steps]
    return {rank: [event for event in events if event.rank == rank] for rank in (0, 1)}


@pytest.fixture(scope="module")
def held_up(ranks: Callable[[int], Session]) -> object:
    """Train on two ranks, of which the second waits for its input; long beside what an exchange takes where other
    tests' ranks are on the same cores, 10 ms.
    """
    with pytest.MonkeyPatch.context() as patch:
        # A fraction of what users wait for.
        patch.setattr(stragglers, "SECONDS", 2.0)
        return ranks(2).run(FIT.format(sleep="0.15 if rank == 1 else 0", steps=14), sample_every_s=0.5)


def test_fit_tells_how_it_goes_and_what_it_waits_for(held_up: object) -> None:
    samples = samples_of(held_up)
    for rank in (0, 1):
        mine = samples[rank]
        assert sum(sample.steps for sample in mine) == mine[-1].step == 28
        assert {sample.model for sample in mine} == {"Sequential, 40 parameters, batch 16"}
        assert mine[-1].epoch == 1
        assert mine[-1].loss is not None
        assert set(mine[-1].metrics) == {"mae"}
        for sample in mine:
            assert sample.rss_bytes > 10**8
            assert sample.samples_per_s == pytest.approx(16 / sample.step_s, rel=0.05)
            assert sample.input_s is not None
            assert sample.exchange_s is not None
            # A step of the rank that waits may be an exchange and nothing else.
            assert 0 <= sample.exchange_s <= sample.step_s
    # A batch takes 150 ms to come on rank 1, and the rest of such a step much less.
    mine = samples[1]
    waiting = sum(sample.input_s * sample.steps for sample in mine) / sum(s.step_s * s.steps for s in mine)
    assert waiting > 0.5
    record = json.loads((folder_of(held_up) / "run.json").read_text())
    assert record["samples_per_s"] == pytest.approx(
        sum(16 * 28 / sum(sample.step_s * sample.steps for sample in samples[rank]) for rank in (0, 1)), rel=0.05
    )
    assert record["model"] == "Sequential, 40 parameters, batch 16"


def test_the_rank_that_the_others_wait_for_is_marked_with_what_it_does(held_up: object) -> None:
    marks = [event for event in run_events(folder_of(held_up)) if event.type == "straggler"]
    assert [(mark.rank, mark.is_straggler, mark.spends_on) for mark in marks[:1]] == [(1, True, "input")]
    assert all(mark.rank == 1 for mark in marks)
    waited_s = {rank: median(sample.exchange_s for sample in mine) for rank, mine in samples_of(held_up).items()}
    # The fast rank waits in the exchange for the slow one. (The median: functions are traced in the first steps.)
    assert waited_s[0] > 2 * waited_s[1]


ODD = {
    "several steps at once": "made(steps_per_execution=4).fit(x, y, batch_size=8, epochs=2, verbose=0)",
    "eagerly": "made(run_eagerly=True).fit(x, y, batch_size=8, epochs=2, verbose=0)",
    "a subclass": "made(Sub()).fit(x, y, batch_size=8, epochs=2, verbose=0)",
    "after single batches": (
        "model = made()\nfor _ in range(5): model.train_on_batch(x[:8], y[:8])\n"
        "model.fit(x, y, batch_size=8, epochs=2, verbose=0)"
    ),
    "sparse input": "made().fit(tf.data.Dataset.from_tensor_slices((sparse, y)).batch(8), epochs=2, verbose=0)",
}
# "several steps at once" is one of LAST_BATCHES, too.
QUICK = {"eagerly", "after single batches", "sparse input"}
MADE = """
import keras, numpy as np, tensorflow as tf
import jupyter_ddl.keras as hvd
hvd.init()
keras.utils.set_random_seed(1)
x, y = np.ones((64, 3), "f4"), np.ones((64, 4), "f4")
sparse = tf.sparse.from_dense(x)
class Sub(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)
    def call(self, inputs):
        return self.dense(inputs)
def made(model=None, **options):
    model = model or keras.Sequential([keras.layers.Dense(4)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", **options)
    return model
"""


@pytest.mark.parametrize("how", slow_but(QUICK, ODD))
def test_every_step_and_sample_counts_however_fit_takes_them(pair: Session, how: str) -> None:
    result = pair.run(f"{MADE}{ODD[how]};", sample_every_s=0.2)
    for mine in samples_of(result).values():
        assert sum(sample.steps for sample in mine) == 16
        assert mine[-1].model.endswith("16 parameters, batch 8")
        seconds = sum(sample.step_s * sample.steps for sample in mine)
        samples = sum(sample.samples_per_s * sample.step_s * sample.steps for sample in mine)
        assert samples == pytest.approx(128)
        assert 0 < seconds < 60


# What the meter makes of the sizes that it gets, tests/pure/test_meter.py has.
LAST_BATCHES = {
    "of 32": ("batch_size=32", 1, 32),
    "of 32, several steps at once": ("batch_size=32", 4, 32),
    "of 32, each epoch at once": ("batch_size=32", 7, 32),
    "of 48, which is most": ("batch_size=150", 1, 150),
}


@pytest.mark.parametrize("which", slow_but({"of 32, several steps at once"}, LAST_BATCHES))
def test_a_batch_is_called_what_it_is_though_the_last_is_short(pair: Session, which: str) -> None:
    """200 samples: the last batch of an epoch has fewer, and the last call of the train function fewer steps."""
    arguments, at_once, batch = LAST_BATCHES[which]
    fit = (
        "x, y = np.ones((200, 3), 'f4'), np.ones((200, 4), 'f4')\n"
        f"made(steps_per_execution={at_once}).fit(x, y, {arguments}, epochs=3, verbose=0);"
    )
    for mine in samples_of(pair.run(f"{MADE}{fit}", sample_every_s=0.2)).values():
        assert {sample.model for sample in mine} == {f"Sequential, 16 parameters, batch {batch}"}
        assert sum(sample.steps for sample in mine) == mine[-1].step == 3 * -(-200 // batch)
        assert sum(sample.samples_per_s * sample.step_s * sample.steps for sample in mine) == pytest.approx(600)


def test_a_sample_taken_within_a_step_tells_as_much_as_others(pair: Session) -> None:
    """Samples are as frequent as steps: some find a step begun and not ended, some its end alone."""
    result = pair.run(FIT.format(sleep="0.02", steps=30), sample_every_s=0.03)
    for mine in samples_of(result).values():
        assert len(mine) > 30
        assert all(sample.exchange_s is not None and sample.samples_per_s for sample in mine)
        assert sum(sample.samples_per_s * sample.step_s * sample.steps for sample in mine) == pytest.approx(16 * 60)


def test_a_loop_of_ones_own_reports(pair: Session) -> None:
    result = pair.run(
        "import jupyter_ddl, time\nfor step in range(20):\n    time.sleep(0.05)\n"
        "    jupyter_ddl.report(samples=10, loss=1 / (step + 1))",
        sample_every_s=0.3,
    )
    for mine in samples_of(result).values():
        assert mine[-1].step == 19
        assert mine[-1].loss == pytest.approx(1 / 20)
        assert mine[-1].samples_per_s == pytest.approx(200, rel=0.3)


DIVERGES = """
import jupyter_ddl, time
model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(8)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1e30)), "mse", metrics=["mae"])
model.fit(np.ones((320, 4), "f4"), np.ones((320, 8), "f4"), batch_size=8, epochs=3, verbose=0)
for step in range(12):
    jupyter_ddl.report(10**400 if step % 2 else -3, loss=float("nan"), up=np.float32("inf"), down=-1e999, flag=True)
    time.sleep(0.1)
print("to the end")
"""


def test_figures_that_are_no_finite_numbers_are_recorded_alike_and_training_goes_on(notebook: object) -> None:
    code = FIT.format(sleep="0.01", steps=20) + DIVERGES
    cell = notebook.run(code, "--sample-every 0.2")  # type: ignore[attr-defined]
    assert cell.error is None, cell.told
    assert "to the end" in cell.text
    assert "Message serialization failed" not in cell.text
    picture = next(output.data for output in cell.outputs if "image/svg+xml" in output.data)
    assert "nan" in picture["text/plain"].split()
    # Not by name: two that began within a second are in any order.
    folder = max(paths.runs_dir().iterdir(), key=lambda run: run.stat().st_mtime_ns)
    merged = (folder / "events.jsonl").read_bytes().splitlines()
    for rank in (0, 1):
        own = (folder / f"rank-{rank}.events.jsonl").read_bytes().splitlines()
        assert own == [line for line in merged if b'"rank":%d,' % rank in line and b'"straggler"' not in line]
    text = b"\n".join(merged).decode() + (folder / "run.json").read_text()
    assert not set(re.findall(r": ?(-?NaN|-?Infinity)\b", text))
    samples = [event for event in read_events(folder / "events.jsonl") if isinstance(event, MetricsSample)]
    assert any(math.isnan(sample.loss) for sample in samples if sample.loss is not None)
    last = samples[-1].metrics
    assert (last["up"], last["down"], last["flag"]) == (math.inf, -math.inf, 1.0)
    again = notebook.execute("%ddl dashboard")  # type: ignore[attr-defined]
    assert again.error is None, again.told
    assert math.isnan(read_record(folder).loss or 0.0)


def test_nothing_is_sampled_where_nobody_wants_it(pair: Session) -> None:
    result = pair.run("import time; time.sleep(1.0)", sample_every_s=None)
    assert not [e for e in run_events(folder_of(result)) if isinstance(e, MetricsSample)]
    result = pair.run("import time; time.sleep(0.4)", sample_every_s=0.1)
    machine = [e for e in run_events(folder_of(result)) if isinstance(e, MetricsSample)]
    assert {sample.rank for sample in machine} == {0, 1}
    assert {sample.step for sample in machine} == {None}


def test_the_ranks_end_adds_nothing_to_the_last_log(tmp_path: Path) -> None:
    with start(n=1, name="short", env=without(tmp_path, "tensorflow")) as session:
        folder = folder_of(session.run("print('all of it')"))
    assert (folder / "rank-0.log").read_text() == "all of it\n"


def test_a_cell_that_trains_shows_a_dashboard_and_in_the_end_a_picture(notebook: object) -> None:
    cell = notebook.run(FIT.format(sleep="0.02", steps=25), "--sample-every 0.3")  # type: ignore[attr-defined]
    assert cell.error is None, cell.told
    # One output: the kernel's widget while the run lasts, then the picture, and the run itself for the extension.
    data = next(output.data for output in cell.outputs if RUN_MIME in output.data)
    assert list(data) == [RUN_MIME, "image/svg+xml", "text/plain"]
    assert (paths.runs_dir() / data[RUN_MIME]["run"]).is_dir()
    assert "finished" in data["text/plain"]
    assert "Sequential, 40 parameters, batch 16" in data["text/plain"]
    again = notebook.execute("%ddl dashboard")  # type: ignore[attr-defined]
    assert again.error is None, again.told
    shown = next(output.data for output in again.outputs if RUN_MIME in output.data)
    assert shown.pop("application/vnd.jupyter.widget-view+json")["version_major"] == 2
    assert shown == data
    plain = notebook.run("model.fit(batches(), steps_per_epoch=3, verbose=0);", "--sample-every 0")  # type: ignore[attr-defined]
    assert plain.error is None
    assert not plain.outputs
    refused = notebook.run("1", "--sample-every -1")  # type: ignore[attr-defined]
    assert refused.told == (
        "InvalidInput: The interval between samples must not be negative. Received: --sample-every -1. "
        "Pass a number above 0, or 0 for none."
    )
