"""A run's figures are one number in every view; Python and the browser read the same fixture."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from batches import read
from run_folders import make_run

from jupyter_ddl.protocol.codec import as_line, decode, number_in
from jupyter_ddl.protocol.events import Event, MetricsSample, RunFinished, RunStarted
from jupyter_ddl.protocol.faults import Fault
from jupyter_ddl.protocol.number_texts import loss as loss_text
from jupyter_ddl.protocol.number_texts import number
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.summary import Summary
from jupyter_ddl.server.tail import Tail
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.metrics_table import metrics_table
from jupyter_ddl.views.picture import picture
from jupyter_ddl.views.runs_table import run_line

CASES = json.loads((Path(__file__).parents[2] / "labextension/schema/figures.fixture.json").read_text())


def events_of(case: dict[str, Any]) -> list[Event]:
    return [decode(event, Event) for event in case["events"]]


def figures_of(events: list[Event]) -> Figures:
    figures = Figures()
    for event in events:
        figures.handle(event)
    return figures


def near(value: Any) -> Any:
    return value if value is None else pytest.approx(number_in(value), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_figures_of_a_run(case: dict[str, Any]) -> None:
    figures = figures_of(events_of(case))
    assert figures.samples_per_s == near(case["samples_per_s"])
    assert sum(one.samples_per_s is not None for one in figures.current.values()) == case["ranks"]
    assert figures.loss == near(case["loss"])
    assert figures.step_s == near(case["step_s"])
    shown = {str(rank.rank): figures.shown(rank) for rank in figures.ranks.values() if rank.trained is not None}
    assert {rank: asdict(mean) for rank, mean in shown.items()} == {
        rank: {name: near(value) for name, value in mean.items()} for rank, mean in case["of"].items()
    }


@pytest.mark.parametrize("case", [case for case in CASES if case["events"][-1]["type"] == "run_finished"])
def test_the_list_of_runs_has_the_same(case: dict[str, Any]) -> None:
    summary = Summary()
    for event in events_of(case):
        if isinstance(event, MetricsSample):
            summary.handle(event)
    assert summary.fields().get("samples_per_s") == near(case["samples_per_s"])
    assert summary.fields().get("loss") == near(case["loss"])


def long_run() -> list[Event]:
    """Return a run of an hour whose last second is none like the others."""
    events: list[Event] = [RunStarted("r", (0, 1), 2, 0.0)]
    for at in range(1, 3601):
        for rank in (0, 1):
            step_s = 0.011 + 0.0013 * (at % 7) + 0.001 * rank if at < 3600 else 0.5
            events.append(
                MetricsSample(
                    "r",
                    rank,
                    float(at),
                    50.0,
                    2**30,
                    model="m",
                    step=at,
                    steps=7,
                    samples_per_s=32.1 / step_s,
                    step_s=step_s,
                    exchange_s=step_s / 3 if at < 3600 else None,
                    loss=1 / at,
                )
            )
    return [*events, RunFinished("r", "finished", 3600.0)]


def test_list_table_picture_and_browser_show_the_same_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path))
    events = long_run()
    figures, summary = figures_of(events), Summary()
    for event in events:
        if isinstance(event, MetricsSample):
            summary.handle(event)
    rate, loss = summary.fields()["samples_per_s"], summary.fields()["loss"]
    # The last second had 128 samples/s.
    assert rate > 3000
    assert (figures.samples_per_s, figures.loss) == (rate, loss)
    folder = make_run(outcome="finished", **summary.fields())
    (folder / "events.jsonl").write_bytes(b"".join(map(as_line, events)))
    from jupyter_ddl.runs.store import read_record

    shown = f"{number(rate)} samples/s; loss {loss_text(loss)}"
    assert shown in run_line(read_record(folder))
    total = metrics_table(figures).splitlines()[3].split()
    assert number(rate) in total
    assert loss_text(loss) in total
    svg = picture(figures)
    assert f">{number(rate)}</text>" in svg
    # Of rank 1 as well, and its step has an exchange, though its last sample had none.
    one = figures.shown(figures.ranks[1])
    assert one.exchange_s is not None
    assert f">{number(one.samples_per_s)}</text>" in svg
    # The browser has few of the samples, and those to five digits: it gets the means as they are.
    tail = Tail(folder)
    while tail.read_on():
        pass
    means = read(tail.batch(0)[1])["means"]
    rows = [dict(zip(means["columns"], row, strict=True)) for row in means["rows"]]
    assert sum(row["samples_per_s"] for row in rows) == rate
    assert sum(row["loss"] for row in rows) / 2 == loss
    assert {row.pop("rank"): row for row in rows} == {rank: asdict(mean) for rank, mean in figures.means().items()}


def test_a_loss_of_a_rank_that_is_not_in_the_run_takes_its_ranks_with_it() -> None:
    lost = RankLost(1, Fault("lost", "rank", (1,)), 1.0)
    figures = figures_of([RunStarted("r", (0,), 2, 0.0), lost])
    assert {rank.rank: rank.state for rank in figures.ranks.values()} == {0: "lost"}
