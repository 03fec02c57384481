"""Looks at ranks that stall, and at checkpoints, end whatever they meet."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from kernel_sides import RANKS
from raising import DEADLINE_S, raising

from jupyter_ddl import paths
from jupyter_ddl.cluster import rank_stacks
from jupyter_ddl.kernel import checkpoint_offer
from jupyter_ddl.kernel.checkpoint_offer import Offer
from jupyter_ddl.kernel.stall_watch import StallWatch
from jupyter_ddl.protocol import checkpoint_folder
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.views.fault import render_fault


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return Run(RunFolder("tests"), RANKS, 2)


@pytest.mark.parametrize("seam", ["the look", "the thread"])
def test_a_stall_is_reported_also_where_ranks_cannot_be_looked_at(
    seam: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = OSError(errno.EMFILE, "odd")
    watch = StallWatch(run, StallOptions(5.0, "abort"), raising(error))
    if seam == "the thread":
        monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    watch.handle(CollectiveStalled(run.id, 0, time.time(), 30.0, ("loss",), {"1": ["loss"]}))
    report = run.events.get(timeout=DEADLINE_S)
    assert isinstance(report, StallReported)
    assert render_fault(report.fault).startswith(
        "Ranks have waited for 30 s in a collective (loss) that others have not entered. Where they are could not be "
        "looked up: "
    )
    watch.handle(report)
    assert watch.aborts


@pytest.mark.parametrize("content", ["", "cut", "a b c\n"], ids=["empty", "cut", "odd"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_stacks_that_cannot_be_read_are_told_as_that(
    content: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = {0: RankReady(0, 1, 0, socket.gethostname(), os.getpid(), "CPU", 2)}
    transport: Any = SimpleNamespace(send=lambda *_, **__: None)
    path = tmp_path / "rank-0.stacks"
    path.write_text("0x1 7\n" if when == "after" else content)
    looks = rank_stacks.StackLooks(ranks, transport, log_dir=tmp_path)
    monkeypatch.setattr(looks, "_process", lambda _: psutil.Process())
    monkeypatch.setattr(rank_stacks, "_catches", lambda _: True)
    monkeypatch.setattr(rank_stacks, "_signal_thread", lambda *_: path.write_text(content))
    seen = looks.look([0], 0.2)[0]
    assert "not enough values to unpack" in str(seen.note) or "too many values to unpack" in str(seen.note)
    assert seen.note.startswith("it did not answer within 1 s: " if when == "before" else "its stacks cannot be read: ")


def test_a_folder_of_checkpoints_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(Path, "iterdir", raising(OSError(errno.ESTALE, os.strerror(errno.ESTALE))))
    assert Offer([str(tmp_path / "saved")]).text() == (
        f"\nThe checkpoints in {tmp_path}/saved cannot be read: Stale file handle."
    )


def test_a_folder_of_checkpoints_that_does_not_answer_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def away(_: str) -> None:
        never.wait()

    monkeypatch.setattr(checkpoint_offer, "newest", away)
    assert Offer(["/mnt/away"]).text(0.2) == "\nThe checkpoints in /mnt/away could not be looked for: no answer yet."
    never.set()


@pytest.mark.parametrize("error", [KeyError("odd"), MemoryError(), SystemExit(3)])
def test_a_search_for_checkpoints_that_fails_is_told(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkpoint_folder, "_matches", raising(error))
    text = Offer(["/nowhere"]).text()
    assert text.startswith(f"\nThe search for checkpoints failed: {type(error).__name__}")


def test_no_checkpoints_are_looked_for_where_none_were_saved() -> None:
    assert Offer([]).text() == ""
