"""Samples of a rank while a cell runs: when they are made, and by which thread."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine import sampler as module
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.protocol.readings import GpuReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.protocol.events import MetricsSample

DEADLINE_S = 20.0


class Links:
    """Counters of a host, which count how often they are read."""

    reads = 0

    def read(self) -> dict[str, float]:
        self.reads += 1
        return {"network_sent_bytes_per_s": 1.0} if self.reads > 1 else {}


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def events() -> list[MetricsSample]:
    return []


@pytest.fixture
def sampler(links: Links, events: list[MetricsSample]) -> Iterator[Sampler]:
    with rank_state.replaced(rank_state.RankState()) as state:
        yield Sampler(0, state.meter, events.append, links)  # type: ignore[arg-type]


def wait_until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jupyter_ddl sampler"]


def test_short_cells_read_no_counter_and_share_a_thread(
    sampler: Sampler, links: Links, events: list[MetricsSample]
) -> None:
    before = set(threads())
    for number in range(50):
        sampler.begin(f"run-{number}", 30.0)
        sampler.end()
    assert len(set(threads()) - before) == 1
    assert (links.reads, events) == (0, [])


def test_a_long_cell_is_sampled_after_short_ones(sampler: Sampler, events: list[MetricsSample]) -> None:
    sampler.begin("short", 30.0)
    sampler.end()
    # The thread sleeps until the short one's first look would have been due, or without end.
    sampler.begin("long", 0.05)
    wait_until(lambda: len(events) >= 3)
    sampler.end()
    made = len(events)
    # The thread has seen that the run has ended, and waits for another.
    wait_until(lambda: sampler._wakes_s == math.inf)
    assert len(events) == made
    assert {event.run for event in events} == {"long"}
    assert all(event.network_sent_bytes_per_s == 1.0 for event in events)
    sampler.begin("next", 0.05)
    wait_until(lambda: len(events) > made)
    sampler.end()
    assert {event.run for event in events[made:]} == {"next"}


def test_what_a_short_cell_trained_is_sent_without_rates(
    sampler: Sampler, links: Links, events: list[MetricsSample]
) -> None:
    sampler.begin("run", 30.0)
    jupyter_ddl.report(samples=1)
    jupyter_ddl.report(samples=1)
    sampler.end()
    sampler.end()
    (event,) = events
    assert (event.step, event.network_sent_bytes_per_s, links.reads) == (1, None, 0)


def test_a_driver_that_hangs_delays_no_end(
    sampler: Sampler, events: list[MetricsSample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_END_S", 0.05)
    asked, answers = threading.Event(), threading.Event()

    def hang() -> GpuReading:
        asked.set()
        answers.wait(DEADLINE_S)
        return GpuReading()

    monkeypatch.setattr(sampler, "_read_gpu", hang)
    sampler.begin("run", 0.01)
    assert asked.wait(DEADLINE_S)
    jupyter_ddl.report(samples=1)
    jupyter_ddl.report(samples=1)
    sampler.end()
    assert not answers.is_set()
    assert [event.step for event in events] == [1]
    sampler.begin("next", 30.0)
    sampler.end()
    answers.set()


def test_cpu_is_of_this_process_since_the_cell_began(
    sampler: Sampler, events: list[MetricsSample], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = {"cpu": 5.0, "wall": 100.0}
    monkeypatch.setattr(module, "process_time", lambda: now_s["cpu"])
    monkeypatch.setattr(module, "monotonic", lambda: now_s["wall"])
    sampler.begin("run", 30.0)
    now_s |= {"cpu": 5.3, "wall": 100.2}
    jupyter_ddl.report(samples=1)
    jupyter_ddl.report(samples=1)
    sampler.end()
    assert [event.cpu_pct for event in events] == [150.0]
