"""What the dashboard sends to the browser, and that it is bounded."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Any

import pytest
from batches import read_packed
from shown_events import out, packed_events_of, sample

from jupyter_ddl.errors import DashboardMissing
from jupyter_ddl.protocol.events import OutputChunk, RankFinished, RichOutput, RunFinished, RunStarted
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.views import browser_files as module
from jupyter_ddl.views.dashboard import (
    BATCH_TEXT,
    RESENT_TEXT,
    Dashboard,
    Pending,
    show_finished,
)
from jupyter_ddl.views.publish import Display
from jupyter_ddl.views.selection import for_environment, with_figures

WIDGET = "application/vnd.jupyter.widget-view+json"
# What JupyterLab shows in its place, from the run's folder.
RUN = "application/vnd.jupyter-ddl.run+json"


class Published:
    """A `Publisher` that keeps what it is given, and what was replaced."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.replaced: list[dict[str, Any]] = []
        self._ids: list[str] = []

    def publish(self, data, metadata, display_id):
        self.outputs.append(data)
        self._ids.append(display_id)

    def update(self, data, metadata, display_id):
        at = self._ids.index(display_id)
        self.replaced.append(self.outputs[at])
        self.outputs[at] = data


@pytest.fixture(autouse=True)
def bundle(tmp_path, monkeypatch):
    """The browser's part, which these tests do not look into."""
    for name in ("ESM", "CSS"):
        path = tmp_path / name
        path.write_text(f"/* {name} */")
        monkeypatch.setattr(module, name, path)


def shown(*events: Any) -> tuple[Dashboard, Published, Any, list[bytes]]:
    """Return a dashboard that is shown at second 0, its widget, and the batches that the widget gets."""
    published = Published()
    view = Dashboard(published)
    for event in (RunStarted("r", (0, 1), 2, 0.0), sample(0, 0.0), *events):
        view.handle(event)
    view.tick(0.0)
    batches: list[bytes] = []
    view._widget.observe(lambda change: batches.append(change["new"]), "batch")
    return view, published, view._widget, batches


def test_it_appears_with_the_first_training_step() -> None:
    published = Published()
    view = Dashboard(published, ready=[RankReady(0, 2, 0, "node-a", 1, "CPU", 2)])
    view.handle(RunStarted("r", (0, 1), 2, 0.0))
    view.handle(out(0, "before\n"))
    view.handle(sample(0, 1.0, step=None))
    view.tick(1.0)
    assert not published.outputs
    assert not view.is_shown
    view.handle(sample(0, 2.0))
    view.tick(2.0)
    assert view.is_shown
    assert list(published.outputs[0]) == [RUN, WIDGET, "text/plain"]
    # What went before is in the state that the page gets.
    kinds = [type(event).__name__ for event in packed_events_of(view._widget.history)]
    assert kinds == ["RankReady", "RunStarted", "OutputChunk", "MetricsSample", "MetricsSample"]


def test_a_cell_that_does_not_train_shows_nothing() -> None:
    published = Published()
    view = Dashboard(published)
    for event in (RunStarted("r", (0,), 1, 0.0), out(0, "x\n"), RunFinished("r", "finished", 1.0)):
        view.handle(event)
        view.tick(1.0)
    view.flush()
    assert not published.outputs


def test_batches_go_out_twice_a_second_and_join_without_a_gap() -> None:
    view, _, widget, batches = shown()
    for tick in range(1, 101):
        view.handle(out(0, f"{tick}\n"))
        view.tick(tick / 10)
    assert 19 <= len(batches) <= 20
    first = read_packed(widget.history)["next"]
    assert first > 0
    numbers = [(read_packed(data)["first"], read_packed(data)["next"]) for data in batches]
    assert numbers[0][0] == 2
    assert all(end == begin for (_, end), (begin, _) in pairwise(numbers))
    text = "".join(event.text for data in batches for event in packed_events_of(data))
    assert text == "".join(f"{tick}\n" for tick in range(1, numbers[-1][1] - 1))


def test_of_many_ranks_a_batch_comes_once_a_second_and_each_rank_every_third() -> None:
    ranks = range(6 * 50)
    view, _, _, batches = shown()
    for at_s in range(1, 8):
        for rank in ranks:
            view.handle(sample(rank, float(at_s)))
        for tenth in range(10):
            view.tick(at_s + tenth / 10)
    # The first one came while the ranks became known.
    _, *later = batches
    assert len(later) == 6
    told = [event.rank for data in later for event in packed_events_of(data)]
    assert sorted(told) == sorted([*ranks, *ranks])


def test_nothing_new_is_no_batch_and_rich_output_is_none_of_it() -> None:
    view, _, _, batches = shown()
    view.handle(RichOutput("r", 0, "result", {"text/plain": "1"}))
    view.tick(1.0)
    view.tick(2.0)
    assert not batches


def test_a_flood_of_output_is_cut_and_counted() -> None:
    view, _, _, batches = shown()
    chunk = "é" * 999 + "\n"
    for _ in range(2000):
        view.handle(out(0, chunk))
        view.handle(out(1, chunk, "stderr", skipped=5))
    view.handle(sample(1, 1.0))
    view.tick(1.0)
    events = packed_events_of(batches[0])
    output = [event for event in events if isinstance(event, OutputChunk)]
    assert sum(len(event.text) for event in output) <= BATCH_TEXT
    assert len(batches[0]) < 4 * BATCH_TEXT
    assert events[-1] == sample(1, 1.0)
    size = len(chunk.encode())
    for rank, extra in ((0, 0), (1, 5)):
        own = [event for event in output if event.rank == rank]
        told = sum(event.skipped_bytes for event in own)
        assert told + len(own) * size == 2000 * (size + extra)
        assert own[0].skipped_bytes > 0


def test_what_was_left_out_of_one_batch_is_told_once() -> None:
    pending = Pending(max_text=10)
    pending.add(out(0, "a" * 8))
    pending.add(out(1, "b" * 8))
    assert [(event.rank, event.skipped_bytes) for event in pending.take()] == [(1, 0)]
    pending.add(out(0, "c"))
    pending.add(out(0, "d"))
    assert [(event.text, event.skipped_bytes) for event in pending.take()] == [("c", 8), ("d", 0)]


def test_the_history_goes_out_again_ever_more_rarely() -> None:
    view, _, widget, _ = shown()
    sent: list[float] = []
    now_s = 0.0
    widget.observe(lambda change: sent.append(now_s), "history")
    for tick in range(1, 6000):
        now_s = tick / 10
        if tick % 10 == 0:
            view.handle(sample(0, now_s, step=tick))
        view.tick(now_s)
    assert 5 < len(sent) < 15
    # A page that missed something waits for as long as the run has gone on at most.
    assert all(after <= before * 2.1 + 1.1 for before, after in pairwise(sent))


def test_a_page_that_opens_late_gets_what_there_is_by_then() -> None:
    view, _, widget, _ = shown()
    for at in range(1, 50):
        view.handle(sample(0, float(at), step=at + 1))
        view.tick(float(at))
    state = widget.get_state()
    assert read_packed(state["history"])["next"] == 51
    assert packed_events_of(state["history"])[-1].step == 50
    assert "history" not in widget.get_state("batch")


def test_a_page_that_missed_something_is_answered() -> None:
    view, _, widget, _ = shown()
    view.handle(out(0, "new\n"))
    view.tick(0.6)
    before = read_packed(widget.history)["next"]
    widget._handle_custom_msg({"want": "history"}, [])
    assert read_packed(widget.history)["next"] == 3 > before
    widget._handle_custom_msg({"want": "the moon"}, [])
    widget._handle_custom_msg(["no"], [])


def test_a_history_that_nobody_asked_for_has_less_of_the_log() -> None:
    view, _, widget, _ = shown(*(out(0, f"{at:099}\n") for at in range(10_000)))
    sent: list[bytes] = []
    widget.observe(lambda change: sent.append(change["new"]), "history")
    view.handle(sample(0, 5.0))
    view.tick(5.0)
    assert len(zlib.decompress(sent[0])) < 2 * RESENT_TEXT
    output = [event for event in packed_events_of(sent[0]) if isinstance(event, OutputChunk)]
    assert int(output[-1].text) == 9_999
    # What is left out is told of.
    assert output[0].skipped_bytes == int(output[0].text) * 100
    assert len(zlib.decompress(widget.get_state()["history"])) > 1_000_000


def test_the_end_leaves_a_picture_and_a_table() -> None:
    view, published, widget, batches = shown(
        *(sample(rank, float(at), step=at) for at in range(1, 20) for rank in (0, 1))
    )
    for rank in (0, 1):
        view.handle(RankFinished("r", rank, 20.0))
    view.handle(RunFinished("r", "finished", 20.0))
    view.flush()
    assert packed_events_of(batches[-1])[-1] == RunFinished("r", "finished", 20.0)
    assert packed_events_of(widget.history)[-1] == RunFinished("r", "finished", 20.0)
    assert [list(output) for output in published.replaced] == [[RUN, WIDGET, "text/plain"]]
    # In the same output, and without the widget: a notebook that is saved with it shows an error in its place.
    assert [list(output) for output in published.outputs] == [[RUN, "image/svg+xml", "text/plain"]]
    assert published.outputs[0][RUN] == published.replaced[0][RUN]
    assert "finished after 20 s" in published.outputs[0]["text/plain"]


def test_it_is_shown_where_it_is_given_a_place() -> None:
    published, asked = Published(), []
    published.publish({"text/plain": "above"}, {}, "place")
    place = Display("place")
    place.is_published = True
    view = Dashboard(published, place=lambda run: asked.append(run) or place)
    for event in (RunStarted("r", (0,), 1, 0.0), sample(0, 0.0)):
        view.handle(event)
    view.tick(0.0)
    assert asked == ["r"]
    assert [list(output) for output in published.outputs] == [[RUN, WIDGET, "text/plain"]]


@pytest.mark.parametrize("only_first_rank", [False, True])
def test_in_a_cell_it_stands_above_what_was_printed_before(only_first_rank) -> None:
    published = Published()
    output = for_environment(published, (0, 1), None, only_first_rank=only_first_rank)
    view = with_figures(published, output, (), lambda _: None)
    for event in (RunStarted("r", (0, 1), 2, 0.0), out(0, "begin\n")):
        view.handle(event)
    view.tick(0.0)
    view.tick(1.0)
    assert [output["text/plain"] for output in published.outputs] == ["[0]   begin"]
    view.handle(sample(0, 2.0))
    view.tick(2.0)
    assert [output["text/plain"] for output in published.outputs] == ["The run's dashboard", "[0]   begin"]


def test_a_recorded_run_is_shown_whole() -> None:
    published = Published()
    chunks = [out(0, "x" * 1000 + "\n") for _ in range(1000)]
    show_finished([RunStarted("r", (0,), 1, 0.0), *chunks, RunFinished("r", "finished", 1.0)], published)
    # It was asked for, so it stays interactive where the extension is not.
    assert [list(output) for output in published.outputs] == [[RUN, WIDGET, "image/svg+xml", "text/plain"]]


def test_one_ranks_figure_is_asked_for_once_the_model_is_known() -> None:
    asked: list[str] = []

    def single_rank(model: str) -> float:
        asked.append(model)
        return 120.0

    view = Dashboard(Published(), single_rank=single_rank)
    view.handle(sample(0, 1.0, step=None))
    assert asked == []
    for at in (2.0, 3.0):
        view.handle(sample(0, at, model="Sequential, batch 128"))
    view.tick(3.0)
    assert asked == ["Sequential, batch 128"]
    assert read_packed(view.history())["single"] == 120.0


def test_no_events_are_no_run() -> None:
    with pytest.raises(ValueError, match=r"A run must have events to be shown\. Received: none\."):
        show_finished([], Published())


def test_what_was_not_built_is_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "ESM", tmp_path / "none" / "dashboard.js")
    with pytest.raises(DashboardMissing, match=r"must be built\. Received: no dashboard\.js .* Run `make dashboard`"):
        show_finished([RunStarted("r", (0,), 1, 0.0)], Published())


def test_nbconvert_shows_the_final_state() -> None:
    import base64
    import re

    import nbformat
    from nbconvert import HTMLExporter

    published = Published()
    events = (RunStarted("r", (0,), 1, 0.0), sample(0, 1.0), RunFinished("r", "finished", 1.0))
    show_finished(events, published)
    outputs = [nbformat.v4.new_output("display_data", data=data) for data in published.outputs]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("train()", outputs=outputs)])
    page, _ = HTMLExporter().from_notebook_node(notebook)
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert len(pictures) == 1
    assert b'class="jupyter-ddl-final-state"' in base64.b64decode(pictures[0])
