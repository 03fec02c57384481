"""HOROVOD_TIMELINE=file holds the events of every cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


def test_every_cell_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"

    def exchanges() -> int:
        events = json.loads(path.read_text(encoding="utf-8"))
        return sum(event.get("name") == "MPI_ALLREDUCE" for event in events)

    one = "import time, tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nhvd.allreduce(tf.ones(2))\n"
    with jupyter_ddl.start(n=2, name="timeline", env={"HOROVOD_TIMELINE": str(path)}) as session:
        session.run("1 + 1")
        for number in range(2):
            session.run(one)
            assert exchanges() == number + 1, "complete when the cell has ended"
        with pytest.raises(RankError, match="on the way"):
            session.run(f"{one}if rank: raise ValueError('on the way')")
        with pytest.raises(RunTimedOut):
            session.run(f"{one}if rank: time.sleep(60)\nhvd.allreduce(tf.ones(2))", timeout_s=3)
        session.run(one)
        assert exchanges() == 5
        session.run("2 + 2")
        assert exchanges() == 5
    begun = [event["ts"] for event in json.loads(path.read_text(encoding="utf-8")) if event.get("ph") == "B"]
    assert begun == sorted(begun), "on one clock"
    assert [file.name for file in tmp_path.iterdir()] == ["timeline.json"]
