"""What the dashboard sends to the browser, and that it is bounded."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from batches import read, read_history

from jupyter_ddl.errors import DashboardMissing
from jupyter_ddl.protocol.codec import decode, encode
from jupyter_ddl.protocol.events import (
    Event,
    MetricsSample,
    OutputChunk,
    RankFailed,
    RankFinished,
    RankReady,
    RichOutput,
    RunFinished,
    RunStarted,
    StragglerMarked,
)
from jupyter_ddl.views import browser_files as module
from jupyter_ddl.views.dashboard import (
    BATCH_TEXT,
    RESENT_TEXT,
    Dashboard,
    Pending,
    show_finished,
)
from jupyter_ddl.views.event_batches import batch, to_json
from jupyter_ddl.views.history import MAX_TRACEBACKS, History
from jupyter_ddl.views.publish import Display
from jupyter_ddl.views.selection import for_environment, with_figures
from jupyter_ddl.views.spread import SPREAD_FROM, SPREAD_OVER

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


def sample(rank: int, at_s: float, step: int | None = 1, **more: Any) -> MetricsSample:
    trained = {"samples_per_s": 100.0, "step_s": 0.1, "loss": 0.5} if step is not None else {}
    return MetricsSample("r", rank, at_s, 50.0, 2**30, step=step, **trained | more)


def out(rank: int, text: str, stream: str = "stdout", skipped: int = 0) -> OutputChunk:
    return OutputChunk("r", rank, stream, text, skipped)


def events_of(data: bytes) -> list[Any]:
    return [decode(event, Event) for event in read(data)["events"]]


def history_of(data: bytes) -> list[Any]:
    return [decode(event, Event) for event in read_history(data)["events"]]


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
    kinds = [type(event).__name__ for event in history_of(view._widget.history)]
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
    first = read_history(widget.history)["next"]
    assert first > 0
    numbers = [(read(data)["first"], read(data)["next"]) for data in batches]
    assert numbers[0][0] == 2
    assert all(end == begin for (_, end), (begin, _) in pairwise(numbers))
    text = "".join(event.text for data in batches for event in events_of(data))
    assert text == "".join(f"{tick}\n" for tick in range(1, numbers[-1][1] - 1))


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
    events = events_of(batches[0])
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
    assert read_history(state["history"])["next"] == 51
    assert history_of(state["history"])[-1].step == 50
    assert "history" not in widget.get_state("batch")


def test_a_page_that_missed_something_is_answered() -> None:
    view, _, widget, _ = shown()
    view.handle(out(0, "new\n"))
    view.tick(0.6)
    before = read_history(widget.history)["next"]
    widget._handle_custom_msg({"want": "history"}, [])
    assert read_history(widget.history)["next"] == 3 > before
    widget._handle_custom_msg({"want": "the moon"}, [])
    widget._handle_custom_msg(["no"], [])


def test_the_end_leaves_a_picture_and_a_table() -> None:
    view, published, widget, batches = shown(
        *(sample(rank, float(at), step=at) for at in range(1, 20) for rank in (0, 1))
    )
    for rank in (0, 1):
        view.handle(RankFinished("r", rank, 20.0))
    view.handle(RunFinished("r", "finished", 20.0))
    view.flush()
    assert events_of(batches[-1])[-1] == RunFinished("r", "finished", 20.0)
    assert history_of(widget.history)[-1] == RunFinished("r", "finished", 20.0)
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
    assert read_history(view.history())["single"] == 120.0


def test_no_events_are_no_run() -> None:
    with pytest.raises(ValueError, match=r"A run must have events to be shown\. Received: none\."):
        show_finished([], Published())


def test_what_was_not_built_is_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "ESM", tmp_path / "none" / "dashboard.js")
    with pytest.raises(DashboardMissing, match=r"must be built\. Received: no dashboard\.js .* Run `make dashboard`"):
        show_finished([RunStarted("r", (0,), 1, 0.0)], Published())


def test_history_thins_samples_alike_on_all_ranks() -> None:
    history = History(max_samples=100)
    for at in range(1000):
        for rank in range(4):
            history.add(sample(rank, float(at), step=at))
    events = [entry.event for entry in history.entries()]
    by_rank = [[event.at_s for event in events if event.rank == rank] for rank in range(4)]
    assert 48 < len(events) <= 100
    assert by_rank[0] == by_rank[1] == by_rank[2] == by_rank[3]
    # Evenly, and with the newest.
    assert by_rank[0][-1] == 999
    gaps = [after - before for before, after in pairwise(by_rank[0])]
    assert max(gaps) <= 2 * min(gaps[:-1])
    assert history.next == 4000


def test_history_keeps_one_sample_of_each_rank_in_any_case() -> None:
    history = History(max_samples=10)
    for at in range(3):
        for rank in range(100):
            history.add(sample(rank, at * 1e6))
    assert sorted({entry.event.rank for entry in history.entries()}) == list(range(100))


def test_a_history_that_nobody_asked_for_has_less_of_the_log() -> None:
    view, _, widget, _ = shown(*(out(0, f"{at:099}\n") for at in range(10_000)))
    sent: list[bytes] = []
    widget.observe(lambda change: sent.append(change["new"]), "history")
    view.handle(sample(0, 5.0))
    view.tick(5.0)
    assert len(zlib.decompress(sent[0])) < 2 * RESENT_TEXT
    output = [event for event in history_of(sent[0]) if isinstance(event, OutputChunk)]
    assert int(output[-1].text) == 9_999
    # What is left out is told of.
    assert output[0].skipped_bytes == int(output[0].text) * 100
    assert len(zlib.decompress(widget.get_state()["history"])) > 1_000_000


def test_history_from_a_number_on_is_what_came_since() -> None:
    history = History(max_samples=100)
    for at in range(1000):
        history.add(sample(at % 2, float(at)))
        history.add(out(0, f"{at}\n"))
        history.add(StragglerMarked("r", 0, float(at), at % 2 == 0, 1.5, "input"))
    every = history.entries()
    for since in (0, 1, 1500, 2998, 2999, 3000):
        assert history.entries(since=since) == [entry for entry in every if entry.number >= since]
    cut = [entry.event for entry in history.entries(max_text=4, since=2994) if isinstance(entry.event, OutputChunk)]
    assert [(chunk.text, chunk.skipped_bytes) for chunk in cut] == [("999\n", 4)]


def test_history_tells_of_all_output_that_it_dropped() -> None:
    history = History(max_text=1000)
    for at in range(100):
        history.add(out(0, f"{at:099}\n"))
        history.add(out(1, "é\n", "stderr", skipped=7 if at == 0 else 0))
    history.add(out(0, "x" * 990 + "\n"))
    for since, told in ((0, {0: 100 * 100, 1: 100 * 3 + 7}), (100, {0: 50 * 100, 1: 50 * 3}), (200, {0: 0})):
        chunks = [entry.event for entry in history.entries(since=since)]
        missing = {rank: sum(chunk.skipped_bytes for chunk in chunks if chunk.rank == rank) for rank in told}
        sent = {rank: sum(len(chunk.text.encode()) for chunk in chunks if chunk.rank == rank) for rank in told}
        # What is sent, and what is told to be missing, is all that there was.
        assert {rank: missing[rank] + sent[rank] - (991 if rank == 0 else 0) for rank in told} == told
        assert all(since <= entry.number < history.next for entry in history.entries(since=since))
    # Of what was sent before nothing is missing.
    assert history.entries(since=history.next) == []


def test_history_keeps_the_newest_output_and_all_states() -> None:
    history = History(max_text=1000)
    history.add(RunStarted("r", (0,), 1, 0.0))
    for at in range(100):
        history.add(out(0, f"{at:099}\n"))
    for at in range(10_000):
        history.add(StragglerMarked("r", 0, float(at), at % 2 == 0, 1.5, "input"))
    for rank in range(MAX_TRACEBACKS + 1):
        history.add(RankFailed("r", rank, "h", "E", "m", ("t",) * 10, False, 1.0))
    events = [entry.event for entry in history.entries()]
    assert events[0] == RunStarted("r", (0,), 1, 0.0)
    assert [int(event.text) for event in events if isinstance(event, OutputChunk)] == list(range(90, 100))
    assert len(events) < 5000
    tracebacks = [len(event.traceback) for event in events if isinstance(event, RankFailed)]
    assert tracebacks == [10] * MAX_TRACEBACKS + [0]


def test_json_leaves_out_defaults_and_says_nan_in_words() -> None:
    event = sample(0, 1.0, loss=float("nan"), metrics={"auc": float("-inf"), "acc": 0.5}, gpu_pct=0.0)
    content = json.loads(to_json(event))
    assert content["loss"] == "NaN"
    assert content["metrics"] == {"auc": "-Infinity", "acc": 0.5}
    assert content["gpu_pct"] == 0.0
    assert "gpu_watts" not in content
    plain = sample(3, 1.0)
    assert decode(to_json(plain), Event) == plain
    assert len(to_json(plain)) < len(json.dumps(encode(plain))) / 2


def test_each_of_many_ranks_tells_of_itself_in_one_batch_of_several() -> None:
    pending = Pending()
    ranks = range(math.ceil(SPREAD_FROM / SPREAD_OVER) * SPREAD_OVER)
    for rank in ranks:
        pending.add(sample(rank, 0.0))
    pending.take(whole=True)
    told: list[tuple[int, float]] = []
    times = [float(at) for at in range(1, 2 * SPREAD_OVER + 1)]
    for at_s in times:
        for rank in ranks:
            pending.add(sample(rank, at_s))
        pending.add(out(0, "a line\n"))
        taken = pending.take()
        assert [event for event in taken if not isinstance(event, MetricsSample)] == [out(0, "a line\n")]
        told += [(event.rank, event.at_s) for event in taken if isinstance(event, MetricsSample)]
        assert len(taken) < len(ranks) / (SPREAD_OVER - 1)
    # The newest by then, and none twice.
    assert sorted(rank for rank, _ in told) == sorted([*ranks, *ranks])
    assert [at_s for _, at_s in told] == [at_s for at_s in times for _ in range(len(ranks) // SPREAD_OVER)]
    pending.add(RankFinished("r", 0, times[-1]))
    *samples, end = pending.take(whole=True)
    assert {(event.rank, event.at_s) for event in samples} == {(rank, times[-1]) for rank in ranks} - set(told)
    assert end == RankFinished("r", 0, times[-1])


def test_a_batch_is_one_json_object() -> None:
    history = History()
    entries = [history.add(replace(sample(0, 1.0), model='"</script>'))]
    assert read(batch(0, 1, float("inf"), entries))["single"] == "Infinity"
    whole = read(batch(0, 1, None, entries))
    assert (whole["first"], whole["next"], whole["single"]) == (0, 1, None)
    assert decode(whole["events"][0], Event) == entries[0].event


def test_samples_are_rows_of_few_bytes() -> None:
    history = History()
    gpu = {"gpu_pct": 97.5, "gpu_memory_used_bytes": 2**33, "gpu_celsius": 60.0}
    gpu |= {"network_sent_bytes_per_s": 1.25e9}
    samples = [
        sample(0, 1_700_000_000.25, model="before", loss=0.123456789),
        sample(1, 1_700_000_000.5, model="m", loss=float("nan"), metrics={"auc": float("inf")}),
        sample(2, 1_700_000_000.75, model="m", loss=0.123456789, metrics={"auc": 0.987654321}, **gpu),
    ]
    events = read(batch(0, 3, None, [history.add(event) for event in samples]))["events"]
    assert decode(events[0], Event) == samples[0]
    assert (events[1]["loss"], events[1]["metrics"], events[1]["model"]) == ("NaN", {"auc": "Infinity"}, "m")
    assert decode(events[2], Event) == replace(samples[2], loss=0.12346, metrics={"auc": 0.98765})
    many = [history.add(replace(samples[2], rank=rank, network_sent_bytes_per_s=None)) for rank in range(1000)]
    assert len(batch(3, 1003, None, many)) < 130 * 1000


def test_lines_of_ranks_are_rows_of_few_bytes() -> None:
    history = History()
    chunks = [out(0, "one\n"), out(1, "two\n", "stderr", skipped=7), replace(out(2, "three\n"), run="another")]
    events = events_of(batch(0, 3, None, [history.add(chunk) for chunk in chunks]))
    assert events == chunks
    many = [history.add(replace(out(rank, "x" * 30 + "\n"), at_s=1e9, end_bytes=10**6, n=9)) for rank in range(1000)]
    assert len(batch(3, 1003, None, many)) < 60 * 1000


def test_one_line_of_many_ranks_is_one_row() -> None:
    history = History()
    same = [out(rank, "epoch 1\n") for rank in range(1000)]
    chunks = [*same, out(0, "epoch 1\n", "stderr"), out(1, "epoch 1\n", skipped=7), out(0, "2\n"), out(0, "2\n")]
    chunks += [replace(out(rank, "2\n"), run="another") for rank in range(2)]
    data = batch(0, len(chunks), None, [history.add(chunk) for chunk in chunks])
    assert events_of(data) == chunks
    assert len(data) < 6000


def test_text_that_is_no_utf8_still_goes_out() -> None:
    history = History()
    entries = [history.add(out(0, "caf\udce9 \x1b[1m\x00\n"))]
    assert read(batch(0, 1, None, entries))["events"][0]["text"] == "caf? \x1b[1m\x00\n"


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
