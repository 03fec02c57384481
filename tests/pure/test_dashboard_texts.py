"""The dashboard's figures as a table and as a picture."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET

import pytest

from jupyter_ddl.protocol.events import (
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
    RunFinished,
    RunStarted,
    StragglerMarked,
)
from jupyter_ddl.protocol.faults import loss_in_words
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.views.figures import MAX_POINTS, Curve, Figures
from jupyter_ddl.views.metrics_table import MetricsTable, metrics_table
from jupyter_ddl.views.picture import picture
from jupyter_ddl.views.terminal import TerminalView


def sample(rank, at_s, step=None, **more):
    base = {"samples_per_s": 1000.0, "step_s": 0.128, "input_s": 0.0128, "exchange_s": 0.032, "loss": 0.5}
    values = (base if step is not None else {}) | more
    return MetricsSample("run-1", rank, at_s, 99.0, 2**31, model="Sequential, batch 128", step=step, **values)


def figures(*events, ranks=2, single=None):
    read = Figures(lambda _: single)
    for event in (RunStarted("run-1", tuple(range(ranks)), ranks, 0.0), *events):
        read.handle(event)
    return read


def test_the_table_of_a_run_that_trains() -> None:
    read = figures(sample(0, 1.0, 7), sample(1, 1.0, 8, samples_per_s=500.0, loss=0.25, gpu_pct=50.0), single=800.0)
    assert metrics_table(read).splitlines() == [
        "rank  state       step  samples/s  step ms  input  exchange   loss    RSS  GPU",
        "   0  training       7      1,000      128    10%       25%    0.5  2 GiB    -",
        "   1  training       8        500      128    10%       25%   0.25  2 GiB  50%",
        " all  2 training     8      1,500      128    10%       25%  0.375  4 GiB  50%",
        "Sequential, batch 128 · scaling efficiency 94%",
    ]


def test_the_table_of_a_run_that_failed() -> None:
    failure = RankFailed("run-1", 1, "h", "ValueError", "no", (), False, 2.0)
    effect = RankFailed("run-1", 0, "h", "HorovodInternalError", "down", (), True, 1.0)
    text = metrics_table(figures(sample(0, 1.0, 7), effect, failure, RunFinished("run-1", "failed", 2.0)))
    assert "1 failed, 1 released" in text
    assert text.splitlines()[-1] == "Sequential, batch 128 · failed after 2 s · rank 1 raised ValueError"


def test_of_many_ranks_those_in_trouble_and_the_slowest_are_shown() -> None:
    samples = [sample(rank, 1.0, 7, samples_per_s=1000.0 + rank) for rank in range(100)]
    lost = RankLost(77, loss_in_words("killed by signal 9"), 2.0)
    mark = StragglerMarked("run-1", 50, 2.0, is_straggler=True, ratio=1.5, spends_on="input")
    lines = metrics_table(figures(*samples, lost, mark, ranks=100), most=4).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "50", "77"]
    assert lines[5] == "... 96 more ranks, all faster and without trouble"
    assert "1 lost, 1 straggler, 98 training" in lines[6]
    assert lines[7].endswith("killed by signal 9.")


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (OutputChunk("run-1", 0, "stdout", "x"), "running"),
        (RankFinished("run-1", 0, 1.0), "finished"),
        (RankLost(None, loss_in_words("gone"), 1.0), "lost"),
        (StragglerMarked("run-1", 0, 1.0, is_straggler=True, ratio=2.0, spends_on="input"), "straggler"),
        (StragglerMarked("run-1", 0, 1.0, is_straggler=False, ratio=1.0, spends_on="input"), "training"),
    ],
)
def test_states(event, state) -> None:
    assert figures(event).ranks[0].state == state


def test_a_rank_that_has_stopped_training_counts_no_more_until_the_run_ends() -> None:
    read = figures(sample(0, 1.0, 5), sample(1, 20.0, 50))
    assert read.samples_per_s == 1000.0
    read.handle(RunFinished("run-1", "finished", 21.0))
    assert read.samples_per_s == 2000.0


def test_a_curve_is_bounded_and_keeps_its_mean() -> None:
    curve = Curve()
    for step in range(100_000):
        curve.add(step, 1.0 if step < 50_000 else 3.0)
    points = curve.points()
    assert MAX_POINTS / 2 <= len(points) <= MAX_POINTS
    assert points[0][1] == 1.0
    assert points[-1] == (pytest.approx(100_000, abs=1000), 3.0)


class Screen(io.StringIO):
    """A terminal: what a user sees of what is written."""

    def isatty(self):
        return True

    @property
    def lines(self):
        rows, row, column = [""], 0, 0
        text = self.getvalue()
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                end = next(i for i in range(at + 2, len(text)) if text[i].isalpha())
                count, kind = text[at + 2 : end], text[end]
                if kind == "A":
                    row -= int(count or 1)
                elif kind == "J":
                    rows[row:] = [rows[row][:column]]
                elif kind == "K":
                    rows[row] = rows[row][:column]
                at = end + 1
                continue
            if text[at] == "\n":
                row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
            elif text[at] == "\r":
                column = 0
            else:
                rows[row] = rows[row][:column].ljust(column) + text[at] + rows[row][column + 1 :]
                column += 1
            at += 1
        return rows


def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")
    screen = Screen()
    return screen, MetricsTable(TerminalView(range(2), screen, screen, grace_s=0.0), screen)


def test_the_table_stays_under_what_ranks_print(monkeypatch) -> None:
    screen, view = terminal(monkeypatch)
    view.handle(RunStarted("run-1", (0, 1), 2, 0.0))
    for at in range(1, 6):
        for rank in (0, 1):
            view.handle(OutputChunk("run-1", rank, "stdout", f"epoch {at}\n 1/9 \r"))
            view.handle(sample(rank, float(at), at))
        for tenth in range(10):
            view.tick(at + tenth / 10)
    lines = [line.rstrip() for line in screen.lines]
    assert [line for line in lines if line.startswith("[0-1] epoch")] == [f"[0-1] epoch {at}" for at in range(1, 6)]
    assert sum(line.startswith("rank") for line in lines) == 1
    assert lines[-2].startswith(" all  2 training     5      2,000")
    for rank in (0, 1):
        view.handle(RankFinished("run-1", rank, 6.0))
    view.handle(RunFinished("run-1", "finished", 6.0))
    view.flush()
    lines = [line.rstrip() for line in screen.lines]
    assert sum(line.startswith("rank") for line in lines) == 1
    assert lines[-2] == "Sequential, batch 128 · finished after 6 s"


def test_where_there_is_no_terminal_the_table_is_printed_once() -> None:
    stream = io.StringIO()
    view = MetricsTable(TerminalView(range(1), stream, stream), stream)
    for event in (RunStarted("run-1", (0,), 1, 0.0), OutputChunk("run-1", 0, "stdout", "hello\n"), sample(0, 1.0, 3)):
        view.handle(event)
        view.tick(1.0)
    view.flush()
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("samples/s") == 1
    assert stream.getvalue().startswith("[0] hello\nrank  state")


def test_a_cell_that_does_not_train_has_no_table() -> None:
    stream = io.StringIO()
    view = MetricsTable(TerminalView(range(1), stream, stream), stream)
    view.handle(OutputChunk("run-1", 0, "stdout", "hello\n"))
    view.tick(1.0)
    view.flush()
    assert stream.getvalue() == "[0] hello\n"


@pytest.mark.parametrize("ranks", [1, 8, 64, 1024])
def test_the_picture_is_small_and_well_formed(ranks) -> None:
    samples = [sample(rank, float(at), at * 8) for at in range(1, 400) for rank in range(min(ranks, 4))]
    last = [sample(rank, 400.0, 3200, samples_per_s=900.0 + rank) for rank in range(ranks)]
    mark = StragglerMarked("run-1", 0, 400.0, is_straggler=True, ratio=2.0, spends_on="compute")
    svg = picture(figures(*samples, *last, mark, ranks=ranks, single=1000.0))
    root = ET.fromstring(svg)
    assert root.get("class") == "jupyter-ddl-final-state"
    # A notebook of 64 KB has room for it.
    assert len(svg) < (20_000 if ranks <= 64 else 50_000)
    assert f"{ranks} rank" in svg.replace(",", "") or ranks == 1


def test_the_pictures_text_is_text() -> None:
    failure = RankFailed("run-1", 0, "h", "E", "<script>alert(1)</script>", (), False, 2.0)
    svg = picture(figures(failure, RunFinished("run-1", "failed", 2.0)))
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert "too few samples" in svg
