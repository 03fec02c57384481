"""What one rank alone made of a model, for the scaling efficiency of more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.store import describe_device, single_rank_samples_per_s

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "Sequential, 40 parameters, batch 16"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path))


def record(samples_per_s: float | None, **fields: Any) -> None:
    of_one_rank = {"ranks": [0], "model": MODEL, "devices": {"0": "GPU 3 (NVIDIA H200)"}, "threads": 2}
    folder = RunFolder("default")
    folder.start_s = time.time()
    measured = {} if samples_per_s is None else {"samples_per_s": samples_per_s}
    folder.write("1", outcome="finished", **(of_one_rank | measured | fields))


def test_the_newest_run_of_one_rank_with_that_model_and_device_counts() -> None:
    record(1.0)
    record(2.0)
    record(None)
    record(3.0, ranks=[0, 1])
    record(4.0, model="another")
    record(5.0, devices={"0": "CPU"})
    record(6.0, threads=1)
    assert single_rank_samples_per_s(MODEL, "NVIDIA H200, 2 threads") == 2.0
    assert single_rank_samples_per_s(MODEL, "CPU, 2 threads") == 5.0


def test_where_there_is_none_nothing_is_known() -> None:
    assert single_rank_samples_per_s(MODEL, "CPU, 1 threads") is None


@pytest.mark.parametrize(
    ("device", "described"),
    [("GPU 0 (NVIDIA H200)", "NVIDIA H200, 2 threads"), ("CPU", "CPU, 2 threads"), ("GPU 1", "GPU 1, 2 threads")],
)
def test_a_device_is_known_by_its_kind(device: str, described: str) -> None:
    assert describe_device(device, 2) == described
