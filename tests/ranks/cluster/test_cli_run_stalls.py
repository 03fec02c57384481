"""A script whose ranks wait for others: what a cell reports, its terminal reports, and its record keeps."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from ranks.script_jobs import run, said

from jupyter_ddl import paths
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import newest_first

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

STALLS = """
import time
import tensorflow as tf
import horovod.tensorflow as hvd

def sleeps():
    time.sleep(600)

hvd.init()
if hvd.rank() == 1:
    sleeps()
hvd.allreduce(tf.constant(1.0), name="loss")
"""


def test_a_stall_is_reported_and_aborts_and_the_versions_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    ended = run(tmp_path, STALLS, "-n2", "--stall-after=5", "--on-stall=abort")
    assert ended.returncode == 1, ended.stderr
    script = tmp_path / "script.py"
    report = [
        r"The script has stalled for \d+ s: not every rank has entered",
        r"HorovodAllreduce: rank 0 waits in it for rank 1",
        r"Rank 0 of 2 on \S+",
        rf'{script}:12: hvd\.allreduce\(tf\.constant\(1\.0\), name="loss"\)',
        r"Rank 1 of 2 on \S+",
        rf"{script}:11: sleeps\(\)",
        rf"{script}:7, in sleeps: time\.sleep\(600\)",
    ]
    for lines in (said(0, ended.stderr), ended.stderr.partition("\nThe script")[2].splitlines()):
        for line in report[1:]:
            assert any(re.fullmatch(line, one.strip()) for one in lines), ended.stderr
    assert re.search(f"(?m)^{report[0]}$", ended.stderr)
    assert ended.stderr.endswith("The ranks were released, as --on-stall abort says.\n")
    # Horovod's own text is in the log.
    assert "Missing ranks" not in ended.stderr
    record = next(newest_first())
    assert "Missing ranks" in (record.path / "rank-0.log").read_text()
    assert record.state == "stalled"
    content = json.loads((record.path / "run.json").read_text())
    assert content["versions"].keys() == {"tensorflow", "horovod", "keras"}
    assert content["versions"]["tensorflow"].startswith("2.")
    assert (content["fault"]["kind"], content["fault"]["facts"]["program"]) == ("stalled", "script")
    events = list(run_events(record.path))
    seen = [event for event in events if isinstance(event, CollectiveStalled)]
    assert {event.rank for event in seen} == {0}
    assert all(event.missing == {"1": ["HorovodAllreduce"]} for event in seen)
    [reported] = [event for event in events if isinstance(event, StallReported)]
    assert [place.ranks for place in reported.fault.facts.places] == [(0,), (1,)]
