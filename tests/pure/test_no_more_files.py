"""What of ours runs in threads lives through a time in which its process can open no more files.

The limit is the whole process's: each check has one of its own, whose other threads are not another test's.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.cluster.core_time import CoreTime
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.sampler import Sampler
from jupyter_ddl.kernel.hub_link import link
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.protocol.events import MetricsSample

DEADLINE_S = 10.0


@contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def a_cell_that_trained_ends() -> None:
    samples: list[MetricsSample] = []
    sampler = Sampler(0, rank_state.begin().meter, samples.append)
    sampler.begin("run", 600.0)
    jupyter_ddl.report(samples=1)
    jupyter_ddl.report(samples=1)
    with no_more_files():
        sampler.end()
    assert samples == []


def samples_come_again() -> None:
    samples: list[MetricsSample] = []
    sampler = Sampler(0, rank_state.begin().meter, samples.append)
    with no_more_files():
        sampler.begin("run", 0.01)
        time.sleep(0.2)
    before = len(samples)
    until_s = time.monotonic() + DEADLINE_S
    while len(samples) == before and time.monotonic() < until_s:
        time.sleep(0.01)
    sampler.end()
    assert len(samples) > before


def a_hub_that_is_restarted_meanwhile_is_connected_to() -> None:
    link.RETRY_S = 0.1
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder, socket.socket(socket.AF_UNIX) as hub:
        with no_more_files():
            link.Link(Path(folder) / "hub", State("kernel-1", SimpleNamespace()), Controls()).start()
            time.sleep(2 * link.RETRY_S)
        hub.settimeout(DEADLINE_S)
        hub.bind(f"{folder}/hub")
        hub.listen()
        channel, _ = hub.accept()
        with channel, channel.makefile("rb") as lines:
            assert json.loads(lines.readline())["kernel"] == "kernel-1"


def no_process_is_said_to_starve() -> None:
    core_time = CoreTime()
    core_time.is_starved(os.getpid())
    with no_more_files():
        time.sleep(0.6)
        assert not core_time.is_starved(os.getpid())
    assert not core_time.is_starved(os.getpid())


@pytest.mark.parametrize(
    "check",
    [
        a_cell_that_trained_ends,
        samples_come_again,
        a_hub_that_is_restarted_meanwhile_is_connected_to,
        no_process_is_said_to_starve,
    ],
)
def test_without_files(check: Callable[[], None]) -> None:
    program = f"import {__name__} as checks; checks.{check.__name__}()"
    path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    child = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    # Nor has a thread died meanwhile.
    assert (child.returncode, child.stderr) == (0, "")
