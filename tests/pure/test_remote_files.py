"""Ranks' files are brought from a host that shares no folder: with a command in ssh's place that stays on this host."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.apart_files import ApartFiles, ApartHosts
from jupyter_ddl.launch import remote_files
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.remote_files import bring_all, bring_logs, bring_runs

if TYPE_CHECKING:
    from pathlib import Path

REACH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
shift
{there}
exec /bin/sh -c "$*"
"""
HOST = "node-of-a-test"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The ranks' folder on the host: rank 1 was last in the run "new"."""
    folder = tmp_path / "there"
    for run in ("old", "new", "other"):
        (folder / "runs" / run).mkdir(parents=True)
        (folder / "runs" / run / "rank-1.log").write_text(f"of {run}\n" * 100_000)
    (folder / "log").mkdir()
    (folder / "log" / "rank-1.run").write_text(f"{folder}/runs/new\n")
    (folder / "log" / "rank-1.process").write_text("{}")
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The runs' folder of this host."""
    for run in ("old", "new", "other"):
        (tmp_path / "here" / run).mkdir(parents=True)
    return tmp_path / "here"


def place(folder: Path, there: str = "") -> Place:
    """Return a place of one host, where shell commands run at each login."""
    reach = folder / "reach"
    reach.write_text(REACH.format(there=there))
    reach.chmod(0o755)
    return Place("hosts", (HostSlots(HOST, 2),), str(reach))


def test_a_run_that_no_rank_is_in_is_moved_and_the_last_one_is_copied(tmp_path: Path, there: Path, here: Path) -> None:
    at = place(tmp_path, "echo Welcome")
    assert bring_runs(at, HOST, str(there), ["old", "new", "unknown"], here) == {"old", "unknown"}
    assert (here / "old/rank-1.log").read_text() == "of old\n" * 100_000
    assert (here / "new/rank-1.log").stat().st_mode & 0o777 == 0o600
    assert not (there / "runs/old").exists()
    assert (there / "runs/new/rank-1.log").exists()
    # Not wanted.
    assert not (here / "other/rank-1.log").exists()
    assert (there / "runs/other").exists()


def test_at_the_end_all_is_moved(tmp_path: Path, there: Path, here: Path) -> None:
    # A shell beside the rank completes its log a moment later.
    def complete() -> None:
        with (there / "runs/new/rank-1.log").open("a") as log:
            log.write("last words")
        (there / "runs/new/rank-1.ended").touch()

    threading.Timer(0.3, complete).start()
    (tmp_path / "log").mkdir()
    assert bring_all(place(tmp_path), HOST, str(there), here, tmp_path / "log")
    assert (here / "new/rank-1.log").read_text().endswith("last words")
    assert (tmp_path / "log/rank-1.process").exists()
    assert not there.exists()
    # And again, as after a kernel that brought them itself.
    assert bring_all(place(tmp_path), HOST, str(there), here, tmp_path / "log")


def test_how_ranks_ended_is_copied(tmp_path: Path, there: Path) -> None:
    (there / "log/rank-1.exit").write_text("137 1.0 0\n")
    (tmp_path / "log").mkdir()
    assert bring_logs(place(tmp_path), HOST, str(there), tmp_path / "log")
    assert (tmp_path / "log/rank-1.exit").read_text() == "137 1.0 0\n"
    assert (there / "log/rank-1.exit").exists()


@pytest.mark.parametrize("trouble", ["exit 255", "sleep 60", "full"])
def test_nothing_is_removed_that_is_not_stored(
    tmp_path: Path, there: Path, here: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "DEADLINE_S", 1.0)
    if trouble == "full":
        # A folder in the file's place: it cannot be written.
        (here / "old/rank-1.log").mkdir()
    at = place(tmp_path, "" if trouble == "full" else trouble)
    assert bring_runs(at, HOST, str(there), ["old"], here) is None
    assert not bring_all(at, HOST, str(there), here, tmp_path)
    assert (there / "runs/old/rank-1.log").exists()


def test_only_files_that_ranks_write_are_taken(tmp_path: Path, there: Path, here: Path) -> None:
    for name in ("run.json", "rank-1.log.txt"):
        (there / "runs/old" / name).write_text("not a rank's")
    (there / "runs/old/rank-2.log").symlink_to("/etc/passwd")
    (there / "runs/old/rank-3.log").mkdir()
    os.mkfifo(there / "runs/old/rank-4.log")
    (there / "runs/deep/er").mkdir(parents=True)
    (there / "runs/deep/er/rank-1.log").write_text("")
    bring_all(place(tmp_path), HOST, str(there), here, tmp_path)
    assert [path.name for path in (here / "old").iterdir()] == ["rank-1.log"]
    # A run that was pruned here is not made again.
    assert sorted(path.name for path in here.iterdir()) == ["new", "old", "other"]


def test_runs_that_end_are_brought_in_the_background(tmp_path: Path, there: Path, here: Path) -> None:
    at = place(tmp_path, f"echo x >>{tmp_path}/asked")
    files = ApartFiles(ApartHosts(at, {HOST: str(there)}), here)
    for run in ("old", "new"):
        files.bring_soon(run)
    assert files.wait(30)
    assert (here / "new/rank-1.log").read_text() == "of new\n" * 100_000
    # When a later run has begun the one before is moved.
    (there / "log/rank-1.run").write_text(f"{there}/runs/other\n")
    files.bring_soon("other")
    assert files.wait(30)
    assert sorted(path.name for path in (there / "runs").iterdir()) == ["other"]
    files.close()
    files.close()
    assert len((tmp_path / "asked").read_text().split()) <= 3


def test_without_such_hosts_nothing_is_asked(tmp_path: Path) -> None:
    files = ApartFiles(ApartHosts(place(tmp_path), {}), tmp_path)
    began_s = time.monotonic()
    files.bring("run")
    files.bring_soon("run")
    assert files.wait(0)
    files.close()
    assert time.monotonic() - began_s < 5
