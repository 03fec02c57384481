"""What Lightning, Accelerate and Transformers log shows by itself; each trains on two ranks as it documents that."""

from __future__ import annotations

import importlib.util
from importlib import metadata

import pytest
from frameworks.library_programs import DATA, PROGRAMS

import jupyter_ddl
from jupyter_ddl import paths
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample
from jupyter_ddl.runs.reading import run_events

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

METRICS = {"accelerate": "error", "lightning": "error", "transformers": "learning_rate"}


@pytest.mark.parametrize("library", PROGRAMS)
def test_what_a_library_logs_is_shown(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "lightning" and not metadata.entry_points(group="lightning.pytorch.callbacks_factory"):
        pytest.skip("jupyter_ddl was installed before it had an entry point for Lightning")
    with jupyter_ddl.start(n=2, name=f"shows-{library}", framework="torch") as session:
        result = session.run(DATA + PROGRAMS[library], timeout_s=200, sample_every_s=0.1)
    assert "WARNING: " not in result.ranks[0].stderr + result.ranks[1].stderr
    events = list(run_events(paths.runs_dir() / result.run))
    for rank in (0, 1):
        mine = [one for one in events if isinstance(one, MetricsSample) and one.rank == rank and one.steps]
        assert (mine[-1].step, mine[-1].epoch) == (48, 2)
        assert mine[-1].loss is not None
        assert METRICS[library] in mine[-1].metrics
    epochs = [one for one in events if isinstance(one, EpochEnded)]
    if library != "accelerate":
        assert [(one.rank, one.epoch, one.is_last) for one in epochs][-1] == (0, 2, True)
        assert all("val_loss" in one.metrics for one in epochs)
