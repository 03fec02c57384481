"""What a dashboard's batches are made of: one JSON object of few bytes, whatever the events."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from batches import read
from shown_events import events_of, out, sample

from jupyter_ddl.protocol.codec import decode, encode
from jupyter_ddl.protocol.events import (
    Event,
    MetricsSample,
    RankFinished,
)
from jupyter_ddl.views.dashboard import (
    Pending,
)
from jupyter_ddl.views.event_batches import batch, to_json
from jupyter_ddl.views.history import History
from jupyter_ddl.views.spread import SPREAD_FROM, SPREAD_OVER


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
    pending.take(SPREAD_OVER)
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
    *samples, end = pending.take(SPREAD_OVER)
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
