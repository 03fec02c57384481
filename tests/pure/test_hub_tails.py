"""The runs that are watched: each is read once for all who do, and not at all when nobody does."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import loops
import pytest
from batches import read as read_batch
from run_folders import make_run, own_session, write_events

from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RunFinished, RunStarted
from jupyter_ddl.server.tail import Tail
from jupyter_ddl.server.tails import Tails
from jupyter_ddl.views.spread import SPREAD_FROM, SPREAD_OVER, Spread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.views.event_batches import Entry

STARTED = RunStarted("r", (0,), 1, 1.0)


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it must hold within 10 s")


def test_one_reader_serves_all_and_ends_with_the_last() -> None:
    folder = make_run(session=own_session())
    write_events(folder, [STARTED])

    async def watch() -> None:
        called: list[str] = []
        listeners = [lambda: called.append("a"), lambda: called.append("b")]
        with ThreadPoolExecutor(1) as pool:
            tails = Tails(pool)
            assert await tails.watch("no-run", listeners[0]) is None
            assert len(asyncio.all_tasks()) == 1
            first = await tails.watch(folder.name, listeners[0])
            assert await tails.watch(folder.name, listeners[1]) is first
            assert len(asyncio.all_tasks()) == 2
            await eventually(lambda: set(called) == {"a", "b"})
            assert first is not None
            assert first.next == 1
            tails.unwatch(folder.name, listeners[0])
            called.clear()
            with (folder / "events.jsonl").open("a") as file:
                file.write(
                    json.dumps({"type": "run_finished", "run": "r", "outcome": "finished", "seconds": 1.0}) + "\n"
                )
            tails.hint(folder.name)
            await eventually(lambda: called == ["b"])
            tails.unwatch(folder.name, listeners[1])
            tails.unwatch(folder.name, listeners[1])
            await eventually(lambda: len(asyncio.all_tasks()) == 1)

    loops.run(watch())


def test_a_run_that_cannot_be_read_on_tells_those_who_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(session=own_session())
    write_events(folder, [STARTED])

    async def watch() -> None:
        called: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            tails = Tails(pool)
            monkeypatch.setattr(Tail, "read_on", lambda _: 1 / 0)
            tail = await tails.watch(folder.name, lambda: called.append("a"))
            await eventually(lambda: bool(called))
            assert isinstance(tail, Tail)
            assert isinstance(tail.fault, ZeroDivisionError)

    loops.run(watch())


def read(tail: Tail) -> int:
    """Read all there is; return in how many steps."""
    steps = 1
    while tail.read_on():
        steps += 1
    return steps


def test_a_long_file_is_read_in_steps_and_a_line_of_any_length_once() -> None:
    folder = make_run(session=own_session())
    chunks = [OutputChunk("r", 0, "stdout", "x" * size) for size in [1000] * 9000 + [12 << 20, 5]]
    write_events(folder, chunks)
    tail = Tail(folder)
    assert read(tail) > 4
    assert (tail.next, tail.is_ready, tail.is_over) == (9002, True, False)
    following, content = tail.batch(9001)
    assert following == 9002
    assert [event["text"] for event in read_batch(content)["events"]] == ["x" * 5]


def test_half_a_line_and_no_event_have_no_number() -> None:
    folder = make_run(session=own_session())
    write_events(folder, [STARTED])
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"type": "outp\n{"type": "gossip"}\n{"type": "rich_output", "run": "r"}\n{"type": "run_fini')
    tail = Tail(folder)
    read(tail)
    assert tail.next == 2
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'shed", "run": "r", "outcome": "failed", "seconds": 1.0}\n')
    read(tail)
    assert (tail.next, tail.is_over, tail.is_ready) == (3, True, True)


def test_a_run_that_was_deleted_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("2020-01-01T00-00-00-default-0000", session=own_session())
    tail = Tail(folder)
    read(tail)
    assert not tail.is_over
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    monkeypatch.setattr("jupyter_ddl.server.tail._ALIVE_S", 0.0)
    read(tail)
    assert (tail.next, tail.is_over) == (0, True)


def test_of_a_run_whose_kernel_died_it_is_told_that_it_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_ddl.server.tail._ALIVE_S", 0.0)
    session = own_session()
    folder = make_run(session=session)
    write_events(folder, [STARTED])
    tail = Tail(folder)
    read(tail)
    assert (tail.is_over, tail.ended) == (False, None)
    (folder / "run.json").write_text(json.dumps({"session": {**session, "started_s": 1.0}}))
    read(tail)
    assert (tail.is_over, tail.ended) == (True, "cut off")
    # An end that events tell of needs no other word.
    finished = make_run("2026-11-20T18-03-09-default-0001", outcome="finished")
    write_events(finished, [STARTED, RunFinished("r", "finished", 1.0)])
    tail = Tail(finished)
    read(tail)
    assert (tail.is_over, tail.ended) == (True, None)


def test_of_many_ranks_a_sixth_tells_of_itself_in_each_message_and_all_at_the_end() -> None:
    ranks = range(SPREAD_FROM + 3)
    folder = make_run(session=own_session())
    tail = Tail(folder)
    spread: Spread[Entry] = Spread()
    told: list[tuple[int, float]] = []
    lines: list[str] = []

    def send(second: int, turns: int = 1, *more: RunFinished) -> int:
        """Return how many samples go out, with all that ranks tell in a second of the run."""
        samples = [MetricsSample("r", rank, float(second), 1.0, 1) for rank in ranks]
        write_events(folder, [*events, *samples, OutputChunk("r", 0, "stdout", f"{second}\n"), *more])
        events.extend([*samples, OutputChunk("r", 0, "stdout", f"{second}\n")])
        read(tail)
        since = sent[-1]
        following, content = tail.batch(since, spread, turns)
        sent.append(following)
        batch = read_batch(content)
        assert (batch["first"], batch["next"]) == (since, following)
        new = [(event["rank"], event["at_s"]) for event in batch["events"] if event["type"] == "metrics"]
        told.extend(new)
        lines.extend(event["text"] for event in batch["events"] if event["type"] == "output")
        return len(new)

    events: list[MetricsSample | OutputChunk] = []
    sent = [0]
    # A page that opens has all.
    assert send(1) == len(ranks)
    # Before it is known how many ranks there are, all but the last few go out.
    assert send(2) >= SPREAD_FROM - 1
    told.clear()
    for second in range(3, 3 + SPREAD_OVER):
        assert send(second) <= len(ranks) / SPREAD_OVER + 1
    assert sorted(rank for rank, _ in told) == list(ranks)
    # Three turns have passed where a browser was slow.
    assert send(9, 3) == pytest.approx(len(ranks) / 2, abs=3)
    assert send(10, 1, RunFinished("r", "finished", 10.0)) == len(ranks)
    assert len(told) == len(set(told))
    assert lines == [f"{second}\n" for second in range(1, 11)]


def test_one_ranks_figure_is_told_with_the_model() -> None:
    alone = {"ranks": [0], "world_size": 1, "samples_per_s": 55.0, "model": "m", "outcome": "finished"}
    make_run("2026-11-20T18-03-01-default-0000", devices={"0": "CPU"}, threads=2, **alone)
    folder = make_run(devices={"0": "CPU"}, threads=2, outcome="finished")
    (folder / "events.jsonl").write_text(
        '{"type": "metrics", "run": "r", "rank": 0, "at_s": 1.0, "cpu_pct": 1.0, "rss_bytes": 1, "model": "m"}\n'
    )
    tail = Tail(folder)
    read(tail)
    assert tail.is_over
    assert json.loads(tail.batch(0)[1])["single"] == 55.0


@pytest.mark.parametrize("hosts", [{"0": "node-a", "1": "node-b", "2": "node-a"}, None, {"0": 7, "x": "node-a"}])
def test_a_run_is_read_with_the_hosts_that_its_record_says(hosts: dict[str, str] | None) -> None:
    folder = make_run(session=own_session(), hosts=hosts)
    write_events(folder, [STARTED])
    tail = Tail(folder)
    tail.read_on()
    is_said = hosts is not None and "2" in hosts
    assert read_batch(tail.batch(0)[1]).get("hosts") == ({"node-a": [0, 2], "node-b": [1]} if is_said else None)
    # Once is enough.
    assert "hosts" not in read_batch(tail.batch(1)[1])
