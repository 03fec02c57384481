"""HOROVOD_TIMELINE=file holds the events of every cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@pytest.fixture
def recorded(pair: Session, tmp_path: Path) -> Iterator[Path]:
    """A file for the timeline of what `pair` runs."""
    path = tmp_path / "timeline.json"
    pair.run(f"import os\nos.environ['HOROVOD_TIMELINE'] = {str(path)!r}")
    yield path
    pair.run("import horovod.tensorflow as hvd\nhvd.shutdown()\ndel os.environ['HOROVOD_TIMELINE']")


def test_every_cell_is_in_it(pair: Session, recorded: Path) -> None:
    def exchanges() -> int:
        events = json.loads(recorded.read_text(encoding="utf-8"))
        return sum(event.get("name") == "MPI_ALLREDUCE" for event in events)

    one = "import time, tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nhvd.allreduce(tf.ones(2))\n"
    pair.run("1 + 1")
    for number in range(2):
        pair.run(one)
        assert exchanges() == number + 1, "complete when the cell has ended"
    with pytest.raises(RankError, match="on the way"):
        pair.run(f"{one}if rank: raise ValueError('on the way')")
    with pytest.raises(RunTimedOut):
        pair.run(f"{one}if rank: time.sleep(60)\nhvd.allreduce(tf.ones(2))", timeout_s=1)
    pair.run(one)
    assert exchanges() == 5
    pair.run("2 + 2")
    assert exchanges() == 5
    begun = [event["ts"] for event in json.loads(recorded.read_text(encoding="utf-8")) if event.get("ph") == "B"]
    assert begun == sorted(begun), "on one clock"
    assert [file.name for file in recorded.parent.iterdir()] == ["timeline.json"]
