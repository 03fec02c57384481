"""A rank's events are numbered in the order in which they are sent, also where the disk is full: none is dropped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.host.run_files import RunFiles
from jupyter_ddl.protocol.events import OutputChunk, RankFinished, RichOutput
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.events import Event


@pytest.fixture
def journal(tmp_path: Path) -> tuple[Journal, list[Event]]:
    """Return what takes the events of a run whose disk is full, and what it has sent."""
    sent: list[Event] = []
    files = RunFiles(0)
    journal = Journal(0, sent.append, files)
    journal.begin("run-1", str(tmp_path))
    opened: Any = files._open
    full = os.open("/dev/full", os.O_WRONLY)
    for descriptor in opened.descriptors.values():
        os.dup2(full, descriptor)
    os.close(full)
    return journal, sent


def numbers(sent: list[Event]) -> list[tuple[str, int]]:
    return [(event.type, getattr(event, "n", 0)) for event in sent]


def test_the_event_that_finds_the_disk_full_comes_after_the_report_of_that(
    journal: tuple[Journal, list[Event]],
) -> None:
    keep, sent = journal
    keep(RichOutput("run-1", 0, "result", {"text/plain": "5"}, {}, 5.0))
    keep(RankFinished("run-1", 0, 5.0))
    assert numbers(sent) == [("output", 2), ("rich_output", 3), ("rank_finished", 4)]
    assert isinstance(sent[0], OutputChunk)
    assert sent[0].text == ("jupyter_ddl: the log of rank 0 ends here: No space left on device. The cell continues.\n")


@pytest.mark.parametrize("values", [0, 1])
def test_a_run_on_a_full_disk_has_its_value_and_its_end(
    journal: tuple[Journal, list[Event]], values: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    keep, sent = journal
    for _ in range(values):
        keep(RichOutput("run-1", 0, "result", {"text/plain": "5"}, {}, 5.0))
    keep(RankFinished("run-1", 0, 5.0))
    run = Run(RunFolder("tests"), (0,), 1)
    for event in sent:
        run.take(event)
    run.take_what_came()
    assert run.is_over
    assert run.results[0].value == ("5" if values else None)
