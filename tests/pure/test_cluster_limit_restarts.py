"""Ranks that begin again keep their place under a profile's limit of clusters while they run or are replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from kernel_sides import SPEC, STOPPED
from simulated_worlds import Worlds

from jupyter_ddl import paths
from jupyter_ddl.cluster.spec import Served
from jupyter_ddl.cluster.start_claims import claimed, claimed_start, of_cluster
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.profiles.limits import Allowed

if TYPE_CHECKING:
    import threading
    from pathlib import Path

ONE = Allowed("class", "/etc/site.toml", clusters=1)


@pytest.fixture
def bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    """A session of a profile that allows one cluster; its first ranks are there."""
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return Worlds(({}, {}), spec=replace(SPEC, allowed=ONE))


def check_place(*, is_taken_by: str | None) -> None:
    """Check whether another cluster may start; the name is of the one that may be in its way."""
    other = claimed(ONE, of_cluster("b"))
    if is_taken_by is None:
        with other:
            pass
    else:
        with pytest.raises(InvalidInput, match=rf"Received: one more; running: {is_taken_by} \(starting\)\."), other:
            pass


def test_ranks_that_start_count_until_they_are_there(bounded: Worlds) -> None:
    def counts(_: threading.Event) -> None:
        check_place(is_taken_by="tests")

    bounded.on_launch = counts
    bounded.session.restart()
    assert len(bounded.clusters) == 2
    # From then on their folder counts, which simulated ranks have not.
    check_place(is_taken_by=None)


def test_ranks_that_were_ended_as_idle_begin_again_where_no_other_start_took_their_place(bounded: Worlds) -> None:
    bounded.now.end(STOPPED)
    before = bounded.session.describe()
    with claimed(ONE, of_cluster("other")):
        with pytest.raises(InvalidInput, match=r"one more; running: other \(starting\)\."):
            bounded.session.restart()
        # It is as it was, for a restart when the other is gone.
        assert bounded.session.describe() == before
    check_place(is_taken_by=None)
    bounded.session.restart()
    assert len(bounded.clusters) == 2


def test_ranks_that_run_or_were_lost_keep_their_place(bounded: Worlds) -> None:
    # That one is of a profile that allows more.
    with claimed(None, of_cluster("other")):
        bounded.session.restart()
        bounded.now.kill(1)
        assert bounded.run("1").outcome == "finished"
        assert len(bounded.clusters) == 3


def test_a_job_that_brings_ranks_is_counted_by_its_scheduler_alone(bounded: Worlds) -> None:
    served = Served("slurm", "12", "folder", "login", rebuild=True)
    with claimed(None, of_cluster("other")), claimed_start(replace(bounded.now.spec, served=served)):
        check_place(is_taken_by="other")
