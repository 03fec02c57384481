"""A script whose ranks wait for others: what a cell reports, its terminal reports, and its record keeps."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import eventually
from ranks.script_jobs import RANK, TIMEOUT_S, run, said, started

from jupyter_ddl import paths
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import newest_first

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

STALLS = """
import tensorflow as tf
import horovod.tensorflow as hvd

def waits():
    open("go on").close()

hvd.init()
print("sum", hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum).numpy())
if hvd.rank() == 1:
    waits()
    raise ValueError("no such thing")
hvd.allreduce(tf.constant(1.0), name="loss")
"""


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


def test_a_stall_is_reported_and_recorded_and_a_rank_that_raises_releases_those_in_a_collective(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    report = [
        r"The script has stalled for [\d.]+ s: not every rank has entered",
        r"HorovodAllreduce: rank 0 waits in it for rank 1",
        r"Rank 0 of 2 on \S+",
        rf'{script}:13: hvd\.allreduce\(tf\.constant\(1\.0\), name="loss"\)',
        r"Rank 1 of 2 on \S+",
        rf"{script}:11: waits\(\)",
        rf'{script}:6, in waits: open\("go on"\)\.close\(\)',
    ]
    os.mkfifo(tmp_path / "go on")
    with started(tmp_path, STALLS, "--stall-after=5") as job:
        assert eventually(lambda: "in waits: " in job.errors.read_text(), TIMEOUT_S)
        os.close(os.open(tmp_path / "go on", os.O_WRONLY | os.O_NONBLOCK))
        assert job.process.wait(TIMEOUT_S) == 1
        assert not job.left()
        assert job.has_printed("sum 3.0")
        told = job.errors.read_text()
    for line in report:
        assert any(re.fullmatch(line, one) for one in said(0, told)), told
    assert told.endswith("ValueError: no such thing\n\nRank 0 aborted because rank 1 raised\n")
    assert told.count("Traceback") == 1
    # Horovod's own text is in the log.
    assert "Missing ranks" not in told
    record = next(newest_first())
    assert "Missing ranks" in (record.path / "rank-0.log").read_text()
    assert record.state == "failed"
    content = json.loads((record.path / "run.json").read_text())
    assert content["versions"].keys() == {"tensorflow", "horovod", "keras"}
    assert content["versions"]["tensorflow"].startswith("2.")
    events = list(run_events(record.path))
    seen = [event for event in events if isinstance(event, CollectiveStalled)]
    assert {event.rank for event in seen} == {0}
    assert all(event.missing == {"1": ["HorovodAllreduce"]} for event in seen)
    [reported] = [event for event in events if isinstance(event, StallReported)]
    assert [place.ranks for place in reported.fault.facts.places] == [(0,), (1,)]


# What Horovod says of a stall is what a script's terminal goes by: no TensorFlow is needed to have it released.
SAYS_THAT_IT_STALLS = (
    RANK
    + """
import os, time
MESSAGE = (
    b"[2026-11-22 05:08:27.867568: W /tmp/horovod-0.28.1/horovod/common/stall_inspector.cc:107] One or more tensors "
    b"were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks "
    b"for more than 1 seconds. This may indicate nothing. \\nMissing ranks:\\n1: [loss]\\n"
)
while True:
    if rank == 0:
        os.write(2, MESSAGE)
    time.sleep(0.5)
"""
)


def test_a_stall_aborts(tmp_path: Path) -> None:
    ended = run(tmp_path, SAYS_THAT_IT_STALLS, "-n2", "--stall-after=5", "--on-stall=abort")
    assert ended.returncode == 1, ended.stderr
    # As it was reported, and again at the end.
    assert len(re.findall(r"(?m)The script has stalled for [\d.]+ s: not every rank has entered$", ended.stderr)) == 2
    assert ended.stderr.endswith("The ranks were released, as --on-stall abort says.\n")
    record = next(newest_first())
    assert record.state == "stalled"
    fault = json.loads((record.path / "run.json").read_text())["fault"]
    assert (fault["kind"], fault["facts"]["program"]) == ("stalled", "script")
