"""What a rank says last: the shell that writes it, and the kernel that reads it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl import paths
from jupyter_ddl.engine.event_log import Journal
from jupyter_ddl.engine.last_words import LastWords
from jupyter_ddl.host.run_files import RunFiles
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.rank_files import LOG
from jupyter_ddl.runs import unseen
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.runs.unseen import last_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 10.0


class Rank:
    """As much of rank 0 as the shell beside it needs."""

    def __init__(self, note: Path) -> None:
        self._pipes = os.pipe(), os.pipe()
        (stdout, self.stdout), (stderr, self.stderr) = self._pipes
        self.last_words = LastWords(0, note, (stdout, stderr))

    def end(self) -> None:
        """Close what the end of a process closes; what it printed stays in the pipes."""
        os.close(self.last_words.life)
        for reader, writer in self._pipes:
            os.close(reader)
            os.close(writer)

    def wait_for_shell(self) -> None:
        assert self.last_words._shell.wait(DEADLINE_S) == 0


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Rank]:
    (tmp_path / "log").mkdir()
    made = Rank(tmp_path / "log" / "rank-0.run")
    yield made
    if made.last_words._shell.poll() is None:
        made.end()
        made.wait_for_shell()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path))
    return RunFolder("default")


def test_the_shell_marks_that_a_log_is_complete(rank: Rank, folder: RunFolder) -> None:
    log = folder.path / "rank-0.log"
    log.write_text("first\n")
    rank.last_words.belong_to(str(folder.path))
    os.write(rank.stdout, b"out\n")
    os.write(rank.stderr, b"err\n")
    assert not (folder.path / "rank-0.ended").exists()
    rank.end()
    rank.wait_for_shell()
    assert (folder.path / "rank-0.ended").exists()
    assert log.read_text() == "first\nout\nerr\n"
    assert (folder.path / "rank-0.stderr.jsonl").read_text() == "[10, 4]\n"


def test_a_log_is_read_when_it_is_complete_and_not_before(folder: RunFolder) -> None:
    log = folder.path / "rank-0.log"
    log.write_text("seen\n")

    def shell() -> None:
        time.sleep(0.5)
        with log.open("a") as file:
            file.write("unseen\n")
        (folder.path / "rank-0.ended").touch()

    thread = threading.Thread(target=shell)
    thread.start()
    chunks = list(last_words(folder.path, folder.run, {0: 5}, [0, 1]))
    thread.join()
    assert chunks == [OutputChunk(folder.run, 0, "stderr", "unseen\n", 0, end_bytes=12)]


def test_nobody_waits_for_ranks_that_have_ended_or_write_elsewhere(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "_WAIT_S", 6 * DEADLINE_S)
    (folder.path / "rank-0.log").write_text("unseen\n")
    (folder.path / "rank-0.ended").touch()
    began_s = time.monotonic()
    assert [chunk.text for chunk in last_words(folder.path, folder.run, {}, [0, 1])] == ["unseen\n"]
    assert time.monotonic() - began_s < DEADLINE_S


def test_a_rank_that_does_not_end_is_waited_for_a_while(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "_WAIT_S", 0.3)
    (folder.path / "rank-0.log").write_text("unseen\n")
    began_s = time.monotonic()
    assert [chunk.text for chunk in last_words(folder.path, folder.run, {}, [0])] == ["unseen\n"]
    assert 0.3 <= time.monotonic() - began_s < DEADLINE_S


def test_last_words_do_not_repeat_what_was_shown_before_trouble_with_the_files(folder: RunFolder) -> None:
    run = Run(folder, (0,), 1)
    files = RunFiles(0)
    journal = Journal(0, lambda event: run.handle(event), files)
    journal.begin(run.id, folder.log_dir)
    files.write_output("stdout", b"shown\n")
    journal(OutputChunk(run.id, 0, "stdout", "shown\n", end_bytes=files.log_bytes))
    # The disk is full: what the journal then tells stands in no log.
    files.tell("the log of rank 0 ends here\n")
    (folder.path / "rank-0.ended").touch()
    assert run.results[0].stderr == "the log of rank 0 ends here\n"
    assert list(last_words(folder.path, run.id, run.seen_bytes, [0])) == []


def test_a_cell_begins_where_the_clusters_folder_is_gone(rank: Rank, folder: RunFolder, tmp_path: Path) -> None:
    files = RunFiles(0)
    journal = Journal(0, lambda event: None, files)
    journal.when_begun(rank.last_words.belong_to)
    (tmp_path / "log").rmdir()
    journal.begin(folder.run, folder.log_dir)
    assert files.has_log
    files.begin(None)


def test_an_earlier_log_gets_nothing_where_the_run_cannot_be_noted(
    rank: Rank, folder: RunFolder, tmp_path: Path
) -> None:
    earlier = folder.path / "rank-0.log"
    earlier.write_text("earlier\n")
    rank.last_words.belong_to(str(folder.path))
    files_may_have = resource.getrlimit(resource.RLIMIT_FSIZE)
    # As on a disk that is full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, files_may_have[1]))
    try:
        rank.last_words.belong_to("another run's folder")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, files_may_have)
    assert [file.name for file in (tmp_path / "log").iterdir() if "run" in file.name] == []
    os.write(rank.stdout, b"of another run\n")
    rank.end()
    rank.wait_for_shell()
    assert earlier.read_text() == "earlier\n"


def test_a_run_begins_where_closing_the_one_before_fails(folder: RunFolder) -> None:
    files = RunFiles(0)
    files.begin(folder.log_dir)
    assert files._open is not None
    os.close(files._open.descriptors[LOG])
    files.begin(None)
    assert not files.has_log


ENDS_WITH_WHAT_IT_READ = """
import os, sys, time
from jupyter_ddl.engine import capture
from jupyter_ddl.engine.world import World
from jupyter_ddl.host.run_files import RunFiles
files = RunFiles(0)
files.begin(sys.argv[1])
nothing = lambda *_: None
captured = capture.Capture(World(0, 1, 0, 1, "here", 0, None), nothing, files, nothing, nothing)
capture._Pipe.keep = lambda pipe, data: data and os.kill(os.getpid(), 9)
captured.begin("run")
os.write(2, b"why\\n")
time.sleep(60)
"""


def test_a_rank_that_ends_with_what_it_has_read_has_written_it(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS_WITH_WHAT_IT_READ, str(tmp_path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "rank-0.log").read_text() == "why\n"
    assert (tmp_path / "rank-0.stderr.jsonl").read_text() == "[0, 4]\n"


def test_output_is_moved_from_the_pipe_into_the_log(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    files = RunFiles(0)
    files.begin(str(tmp_path))
    os.set_blocking(reader, False)
    os.write(writer, b"one\ntwo\n")
    assert files.take_output("stdout", reader, 4) == b"one\n"
    assert files.take_output("stderr", reader, 100) == b"two\n"
    assert files.take_output("stdout", reader, 100) == b""
    assert files.log_bytes == 8
    assert (tmp_path / "rank-0.log").read_text() == "one\ntwo\n"
    assert (tmp_path / "rank-0.stderr.jsonl").read_text() == "[4, 4]\n"
    os.write(writer, b"three\n")
    assert files._open is not None
    appends = os.open(tmp_path / "rank-0.log", os.O_WRONLY | os.O_APPEND)
    os.dup2(appends, files._open.descriptors[LOG])
    # As of a file system that takes no pipe: nothing is taken, and the caller reads it.
    assert files.take_output("stdout", reader, 100) is None
    assert os.read(reader, 100) == b"three\n"
    files.begin(None)
    assert files.take_output("stdout", reader, 100) is None
    for descriptor in (reader, writer, appends):
        os.close(descriptor)
