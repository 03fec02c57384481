"""The sampler, where the process that it samples can open no more files."""

from __future__ import annotations

import resource
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jupyter_ddl
from jupyter_ddl.engine import meter
from jupyter_ddl.engine.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.events import MetricsSample

DEADLINE_S = 10.0


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_cell_that_trained_and_then_used_up_its_files_ends() -> None:
    samples: list[MetricsSample] = []
    sampler = Sampler(0, samples.append)
    sampler.begin("run", 600.0)
    jupyter_ddl.report(samples=1)
    jupyter_ddl.report(samples=1)
    with no_more_files():
        sampler.end()
    assert samples == []
    meter.begin()


def test_samples_come_again_when_files_can_be_opened_again() -> None:
    samples: list[MetricsSample] = []
    sampler = Sampler(0, samples.append)
    with no_more_files():
        sampler.begin("run", 0.01)
        time.sleep(0.2)
    before = len(samples)
    until_s = time.monotonic() + DEADLINE_S
    while len(samples) == before and time.monotonic() < until_s:
        time.sleep(0.01)
    sampler.end()
    assert len(samples) > before
