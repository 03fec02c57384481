import json
import random
import re

import pytest

from jupyter_ddl.protocol.events import (
    OutputChunk,
    OutputCleared,
    RankFinished,
    RichOutput,
    RunFinished,
    RunStarted,
    StallReported,
)
from jupyter_ddl.protocol.faults import Facts, Fault, Wait
from jupyter_ddl.views.cell import CellView

PLOT = {"image/png": "iVBOR", "text/plain": "<Figure>"}


class Notebook:
    """What a front end would hold: outputs in order, changed in place by their display_id."""

    def __init__(self):
        self.outputs = []
        self.sent = []

    def publish(self, data, metadata, display_id):
        self.sent.append(data)
        self.outputs.append([display_id, data, metadata])

    def update(self, data, metadata, display_id):
        self.sent.append(data)
        for output in self.outputs:
            if output[0] == display_id:
                output[1:] = data, metadata

    @property
    def shown(self):
        return [data["text/plain"] if data.keys() == {"text/plain"} else sorted(data)[0] for _, data, _ in self.outputs]

    @property
    def lines(self):
        return "\n".join(self.shown).split("\n")


@pytest.fixture
def notebook():
    return Notebook()


def view_of(notebook, world_size=2, logs="/runs/7"):
    return CellView(range(world_size), logs, notebook, interval_s=0.1, wait_s=0.1)


def out(rank, text, stream="stdout", skipped_bytes=0):
    return OutputChunk("r", rank, stream, text, skipped_bytes)


def rich(rank, data, kind="display", display_id=None, metadata=None):
    return RichOutput("r", rank, kind, data, metadata or {}, display_id)


def show(view, *events):
    for event in events:
        view.handle(event)
    view.flush()


def test_a_cell_without_output_publishes_nothing(notebook):
    view = view_of(notebook)
    view.handle(RunStarted("r", (0, 1), 2, 0.0))
    view.tick(1.0)
    show(view, RankFinished("r", 0, 1.0), RankFinished("r", 1, 1.0), RunFinished("r", "finished", 0.1))
    assert notebook.sent == []


def test_a_short_cell_is_published_once(notebook):
    show(view_of(notebook), out(0, "hello\n"), out(1, "hello\nrank 1"))
    assert notebook.shown == ["[0-1] hello\n[1]   rank 1"]
    assert len(notebook.sent) == 1


def test_updates_are_throttled_and_only_for_changes(notebook):
    view = view_of(notebook)
    for step in range(100):
        view.handle(out(0, f"\rstep {step}"))
        view.tick(step * 0.01)
    assert 4 <= len(notebook.sent) <= 11
    view.flush()
    sent = len(notebook.sent)
    view.tick(100.0)
    view.handle(out(1, ""))
    view.tick(101.0)
    assert len(notebook.sent) == sent
    assert notebook.shown == ["[0]   step 99"]


def test_lines_that_differ_do_not_keep_the_next_from_folding(notebook):
    view = view_of(notebook)
    show(view, out(0, "hello 0\nsame\n"), out(1, "hello 1\nmore\nsame\n"))
    assert notebook.lines == ["[1]   hello 1", "[0]   hello 0", "[1]   more", "[0-1] same"]


def test_progress_bars_stand_at_the_end_folded_and_are_replaced(notebook):
    view = view_of(notebook, world_size=3)
    for rank in range(3):
        view.handle(out(rank, f"\r{10 + rank // 2}%", "stderr"))
        view.handle(out(rank, "epoch 1\n"))
    view.tick(0.0)
    view.tick(1.0)
    assert notebook.shown == ["[0-2] epoch 1\n[0-1] 10%\n[2]   11%"]
    for rank in range(3):
        view.handle(out(rank, "\r100%\n", "stderr"))
    view.flush()
    assert notebook.shown == ["[0-2] epoch 1\n[0-2] 100%"]


def test_unfinished_lines_of_ranks_never_mix(notebook):
    view = view_of(notebook)
    for part in ("one ", "two ", "three\n"):
        for rank in range(2):
            view.handle(out(rank, f"{rank}{part}"))
    view.flush()
    assert notebook.lines == ["[0]   0one 0two 0three", "[1]   1one 1two 1three"]


def test_many_unfinished_lines_are_bounded(notebook):
    view = view_of(notebook, world_size=64)
    for rank in range(64):
        view.handle(out(rank, f"bar of {rank}"))
    view.tick(0.0)
    view.tick(1.0)
    assert len(notebook.lines) == 32
    assert notebook.lines[-1] == "… 33 more unfinished lines"


def test_blocks_are_small_and_a_slow_rank_still_joins_an_earlier_one(notebook):
    view = view_of(notebook)
    view.handle(out(0, "".join(f"line {i}\n" for i in range(120))))
    view.tick(0.0)
    assert notebook.sent == []  # it waits a moment for the other rank
    view.tick(1.0)
    assert [text.count("\n") + 1 for text in notebook.shown] == [50, 50, 20]
    view.handle(out(1, "line 60\n"))
    view.tick(2.0)
    view.tick(3.0)
    assert len(notebook.sent) == 4
    assert notebook.lines[60] == "[0-1] line 60"


def test_at_most_400_lines_and_the_rest_is_counted(notebook):
    view = view_of(notebook)
    for i in range(1000):
        view.handle(out(0, f"line {i}\n"))
        view.tick(i)
    view.handle(out(1, "unfinished"))
    view.tick(2000.0)
    view.tick(2001.0)
    lines = notebook.lines
    assert len(lines) == 400
    assert lines[299:302] == ["[0]   line 299", "… 602 more lines: /runs/7", "[0]   line 902"]
    assert lines[-2:] == ["[0]   line 999", "[1]   unfinished"]
    assert max(len(data["text/plain"].split("\n")) for data in notebook.sent) <= 100


def test_without_a_logs_place_the_rest_is_still_counted(notebook):
    show(view_of(notebook, logs=None), out(0, "x\n" * 400))
    assert notebook.lines[300] == "… 1 more line"


@pytest.mark.parametrize("line", ["step {} of 100000, loss 0.1234", "{}" + "x" * 500, "{}" + "<b>&\"'\\" * 30])
def test_a_flood_leaves_a_small_notebook(notebook, line):
    view = view_of(notebook, world_size=8)
    for start in range(0, 2000, 500):
        for rank in range(8):
            view.handle(out(rank, "".join(line.format(i * 8 + rank) + "\n" for i in range(start, start + 500))))
        view.tick(start)
    view.flush()
    assert len(json.dumps([data for _, data, _ in notebook.outputs])) < 64_000
    assert len(notebook.lines) <= 400
    counted = sum(
        int(count.replace(",", "")) for count in re.findall(r"… ([\d,]+) more line", "\n".join(notebook.lines))
    )
    assert counted + len(notebook.lines) - 1 == 16_000


def test_text_that_the_rank_left_out_is_named(notebook):
    show(view_of(notebook), out(1, "begin"), out(1, "end\n", skipped_bytes=12_345))
    assert notebook.lines == ["[1]   begin", "[1]   … 12,345 bytes are only in the log of rank 1", "[1]   end"]


def test_hostile_text_is_text(notebook):
    show(view_of(notebook), out(0, "<script>alert(1)</script>\x1b[31m&amp;\x07\x1b]0;t\x07\r\n\x1b[2J[1] fake\n"))
    assert notebook.lines == ["[0]   <script>alert(1)</script>&amp;", "[0]   [1] fake"]
    assert all(data.keys() == {"text/plain"} for data in notebook.sent)


def test_rich_outputs_stand_in_order_under_their_ranks(notebook):
    metadata = {"image/png": {"width": 640}}
    show(
        view_of(notebook),
        out(0, "before\n"),
        rich(0, PLOT, metadata=metadata),
        out(0, "after\n"),
        rich(1, {"text/html": "<table>", "text/plain": "x"}),
    )
    assert notebook.shown == ["[0]   before\n[0]", "image/png", "[1]", "text/html", "[0]   after"]
    assert notebook.outputs[1][1:] == [PLOT, metadata]


def test_the_same_figure_on_all_ranks_shows_once_and_waits_only_a_moment(notebook):
    view = view_of(notebook, world_size=3)
    view.handle(rich(1, PLOT))
    view.tick(0.0)
    view.tick(0.2)
    assert notebook.shown == ["[1]", "image/png"]
    show(view, rich(0, PLOT), rich(2, PLOT), rich(2, PLOT))
    assert notebook.shown == ["[0-2]", "image/png", "[2]", "image/png"]


def test_results_that_are_only_text_fold_and_keep_their_rank_on_each_line(notebook):
    results = [rich(rank, {"text/plain": f"array([1,\n       {rank // 2}])"}, "result") for rank in range(4)]
    show(view_of(notebook, world_size=4), *results)
    assert notebook.lines == ["[0-1] array([1,", "[0-1]        0])", "[2-3] array([1,", "[2-3]        1])"]


def test_a_long_result_is_bounded(notebook):
    show(view_of(notebook), rich(0, {"text/plain": "\n".join("x" * 5000 for _ in range(200))}, "result"))
    assert notebook.lines[0] == "[0]   " + "x" * 2000 + "… (+3,000 characters)"
    assert notebook.lines[-1] == "[0]   … (+197 lines)"


def test_an_update_replaces_that_ranks_display(notebook):
    view = view_of(notebook)
    show(view, *(rich(rank, {"text/html": "old"}, display_id="d") for rank in range(2)), out(0, "after\n"))
    show(view, rich(1, {"text/html": "new"}, "update", display_id="d", metadata={"a": 1}))
    assert [data["text/html"] for _, data, _ in notebook.outputs if "text/html" in data] == ["old", "new"]
    assert notebook.outputs[3][2] == {"a": 1}


def test_text_with_an_id_can_be_updated(notebook):
    view = view_of(notebook)
    show(view, rich(0, {"text/plain": "old"}, display_id="d"), rich(0, {"text/plain": "new"}, "update", display_id="d"))
    assert notebook.shown == ["[0]", "new"]


def test_an_update_reaches_a_display_of_an_earlier_cell(notebook):
    show(view_of(notebook), rich(1, {"text/html": "old"}, display_id="d"))
    show(view_of(notebook), rich(1, {"text/html": "new"}, "update", display_id="d"))
    assert notebook.outputs[1][1] == {"text/html": "new"}
    assert len(notebook.outputs) == 2


def test_a_widget_shows_as_its_text(notebook):
    widget = "application/vnd.jupyter.widget-view+json"
    show(view_of(notebook), rich(0, {widget: {"model_id": "1"}, "text/plain": "50%"}), rich(1, {widget: {}}))
    assert notebook.shown == ["[0]   50%"]


def test_clear_output_takes_back_only_that_ranks_lines(notebook):
    view = view_of(notebook)
    show(view, out(0, "a\nb\npart"), out(1, "a\nc\n"))
    show(view, OutputCleared("r", 0, wait=False))
    assert notebook.lines == ["[1]   a", "[1]   c"]


def test_clear_output_with_wait_acts_at_the_next_output(notebook):
    view = view_of(notebook)
    show(view, out(0, "old\n"), OutputCleared("r", 0, wait=True))
    assert notebook.lines == ["[0]   old"]
    show(view, out(0, "new\n"))
    assert notebook.lines == ["[0]   new"]


def test_a_loop_that_clears_and_prints_uses_one_line(notebook):
    view = view_of(notebook)
    for step in range(2000):
        for rank in range(2):
            view.handle(OutputCleared("r", rank, wait=True))
            view.handle(out(rank, f"step {step}\n"))
        view.tick(step * 0.05)
    view.flush()
    assert notebook.shown == ["[0-1] step 1999"]


def test_a_live_plot_stays_in_its_place(notebook):
    view = view_of(notebook)
    for step in range(50):
        for rank in range(2):
            view.handle(OutputCleared("r", rank, wait=True))
            view.handle(rich(rank, {"image/png": f"{rank} {step}"}))
        view.tick(step)
    view.flush()
    assert [text for text in notebook.shown if text] == ["[0]", "image/png", "[1]", "image/png"]
    assert [data["image/png"] for _, data, _ in notebook.outputs if "image/png" in data] == ["0 49", "1 49"]


def test_a_cleared_figure_goes(notebook):
    view = view_of(notebook)
    show(view, rich(0, PLOT), rich(0, PLOT, display_id="d"), OutputCleared("r", 0, wait=False))
    assert "image/png" not in notebook.shown
    show(view, rich(0, PLOT), OutputCleared("r", 0, wait=False), rich(0, PLOT, "update", display_id="d"))
    assert not any(notebook.shown)


@pytest.mark.parametrize("seed", range(25))
def test_what_stands_under_a_rank_is_what_it_said_in_order(notebook, seed):
    generator = random.Random(seed)
    ranks, view, said = range(3), view_of(notebook, world_size=3), dict.fromkeys(range(3), "")
    for now in range(120):
        rank = generator.choice(ranks)
        if generator.random() < 0.1:
            view.handle(rich(rank, {"text/html": str(generator.randrange(2))}))
        else:
            text = "".join(generator.choices(["a", "b", " ", "\n"], k=generator.randrange(6)))
            view.handle(out(rank, text))
            said[rank] += text
        if generator.random() < 0.5:
            view.tick(now)
        if now == seed * 4:
            stand_above(view, notebook)
    view.flush()
    assert notebook.shown[0] == "dashboard"
    for rank in ranks:
        shown = [line.split("]", 1) for line in notebook.lines if line.startswith("[")]
        lines = [line.strip() for head, line in shown if rank in members(head[1:]) and line.strip()]
        assert lines == [line.strip() for line in said[rank].split("\n") if line.strip()]


RUN = "2026-11-26T01-02-03-default-0123abcd"
STALL = Fault("stalled", ranks=(0, 1), facts=Facts(seconds=5.0, waits=(Wait(("loss",), (1,)),)))


def folded(notebook):
    """Return how many lines each output has that the dashboard has too; None for what is none of those."""
    marks = [metadata.get("jupyter-ddl") for _, _, metadata in notebook.outputs]
    assert {mark["run"] for mark in marks if mark} <= {RUN}
    return [mark and mark["lines"] for mark in marks]


def stand_above(view, notebook):
    view.stand_above(RUN).send(notebook, {"dashboard": 1}, {})


def test_a_dashboard_stands_above_text_that_was_there_before_it(notebook):
    view = view_of(notebook)
    view.handle(out(0, "".join(f"line {i}\n" for i in range(60))))
    view.tick(0.0)
    view.tick(1.0)
    before = notebook.lines
    assert folded(notebook) == [None, None]
    stand_above(view, notebook)
    assert notebook.shown[0] == "dashboard"
    assert notebook.lines[1:] == before
    assert folded(notebook) == [None, 50, 10]
    show(view, out(0, "line 60\nlive"))
    assert folded(notebook) == [None, 50, 12]


def test_a_dashboard_that_comes_first_is_above_all(notebook):
    view = view_of(notebook)
    stand_above(view, notebook)
    show(view, out(0, "a\n"))
    assert notebook.shown == ["dashboard", "[0]   a"]
    assert folded(notebook) == [None, 1]


def test_what_a_dashboard_has_not_in_its_log_is_not_folded(notebook):
    view = view_of(notebook)
    for event in (out(0, "a\n"), rich(0, {"text/plain": "42"}, "result"), out(0, "b\n"), rich(0, PLOT)):
        view.handle(event)
    view.tick(0.0)
    view.tick(1.0)
    stand_above(view, notebook)
    show(view, out(0, "c\n"), StallReported("r", (0, 1), 1.0, STALL), out(0, "d\n"), rich(0, PLOT))
    texts = ["dashboard", "[0]   a", "[0]   42", "[0]   b", "[0]", "image/png", "[0]   c"]
    assert notebook.shown[:7] == texts
    assert notebook.shown[7].startswith("[0-1] The cell has stalled for 5 s: ")
    assert notebook.shown[8:] == ["[0]   d", "[0]", "image/png"]
    assert folded(notebook) == [None, 1, None, 1, None, None, 1, None, 1, None, None]
    assert notebook.outputs[5][1] == PLOT


def test_a_display_with_a_name_stays_where_a_later_cell_updates_it(notebook):
    view = view_of(notebook)
    show(view, out(0, "a\n"), rich(0, {"text/html": "old"}, display_id="d"), out(0, "b\n"))
    stand_above(view, notebook)
    assert notebook.shown == ["[0]   a\n[0]", "text/html", "dashboard", "[0]   b"]
    show(view_of(notebook), rich(0, {"text/html": "new"}, "update", display_id="d"))
    assert notebook.outputs[1][1] == {"text/html": "new"}


# What was hidden before the dashboard came counts as lines, whatever it was: here 301 lines and 300 results.
@pytest.mark.parametrize(("first", "counted"), [(0, 1000), (500, 1300)])
def test_a_flood_below_a_dashboard_is_bounded_and_counted_whole(notebook, first, counted):
    view = view_of(notebook)
    for i in range(1000):
        if i == first:
            stand_above(view, notebook)
        view.handle(out(0, f"line {i}\n"))
        view.handle(rich(0, {"text/plain": f"result {i}"}, "result"))
        view.tick(i)
    view.flush()
    # A result is in the tail beside the lines: of these two blocks each is one output.
    assert len(notebook.outputs) <= 303
    assert notebook.shown[0] == "dashboard"
    lines, results = (text.split("\n") for text in notebook.shown[-2:])
    assert (lines[-1], results[-1]) == ("[0]   line 999", "[0]   result 999")
    assert sum(count or 0 for count in folded(notebook)) == counted


def members(text):
    spans = [part.split("-") for part in text.split(",")]
    return {rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)}
