"""A scheduler, and folders of their own, for the tests of this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_scheduler import FakeScheduler

from jupyter_ddl import paths
from jupyter_ddl.cluster import jobs_known

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/runtime")
        monkeypatch.setenv(paths.RUNS_VARIABLE, f"{made}/runs")
        yield Path(made) / "runtime"


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    fake = FakeScheduler()
    monkeypatch.setattr(jobs_known, "SCHEDULERS", (fake,))
    monkeypatch.setattr(jobs_known.shutil, "which", lambda command: f"/usr/bin/{command}")
    return fake
