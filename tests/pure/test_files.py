"""Whole files for readers, and locks."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.host import files

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(jupyter_ddl.__file__).parent


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no byte be written to any file, though it can be made."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text("old")
    return path


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_file_is_replaced_whole(path: Path) -> None:
    with files.replacing(path, durable=True) as file:
        file.write(b"ne")
        assert path.read_text() == "old"
        file.write(b"w")
    assert path.read_text() == "new"
    assert names(path.parent) == ["run.json"]


def test_text_is_utf8_also_where_it_is_no_text(path: Path) -> None:
    files.replace(path, "é\ud800\n")
    assert path.read_bytes() == b"\xc3\xa9\xed\xa0\x80\n"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_where_writing_fails_the_old_file_stays(path: Path, error: BaseException) -> None:
    def write_half() -> None:
        with files.replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert path.read_text() == "old"
    assert names(path.parent) == ["run.json"]


def test_on_a_full_disk_the_old_file_stays(path: Path) -> None:
    with pytest.raises(OSError, match="File too large"), full_disk():
        files.replace(path, "new")
    assert path.read_text() == "old"
    assert names(path.parent) == ["run.json"]


def test_what_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(IsADirectoryError):
        files.replace(tmp_path / "run.json", "new")
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "missing" / "run.json", "new")
    assert names(tmp_path) == ["run.json"]


@pytest.mark.parametrize(("mode", "umask", "expected"), [(files.PRIVATE, 0, 0o600), (files.SHARED, 0o027, 0o640)])
def test_the_mode_is_the_new_files(path: Path, mode: int, umask: int, expected: int) -> None:
    path.chmod(0o644)
    before = os.umask(umask)
    try:
        files.replace(path, "new", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == expected


def test_a_link_is_replaced_and_not_followed(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    files.replace(link, "new")
    assert path.read_text() == "old"
    assert not link.is_symlink()
    assert link.read_text() == "new"


def test_many_writers_of_one_file_do_not_mix(path: Path) -> None:
    texts = [letter * 100_000 for letter in "abcdefgh"]
    threads = [threading.Thread(target=files.replace, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert names(path.parent) == ["run.json"]


def test_what_a_killed_writer_leaves_is_found_by_its_name(path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from jupyter_ddl.host import files\n"
        "with files.replacing(Path(sys.argv[1])) as file: os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    (left,) = path.parent.glob(files.UNFINISHED.format(path.name))
    assert names(path.parent) == sorted([left.name, "run.json"])


def test_a_lock_excludes_others_until_its_process_ends_or_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import sys; from pathlib import Path; from jupyter_ddl.host import files\n"
        "with files.locked(Path(sys.argv[1])): print('held', flush=True); input()"
    )
    for kill in (False, True):
        holder = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            assert holder.stdout.readline() == "held\n"
            with files.open_to_lock(path) as file:
                for shared in (False, True):
                    with pytest.raises(BlockingIOError):
                        files.lock(file, shared=shared, wait=False)
                if kill:
                    holder.kill()
                else:
                    holder.stdin.write("\n")
                    holder.stdin.flush()
                # Waits for as long as it takes.
                files.lock(file)
    assert names(tmp_path) == ["lock"]


def test_a_shared_lock_is_shared_and_what_is_in_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with files.locked(path) as file:
        file.write(b"why")
    with files.open_to_lock(path) as one, path.open("rb") as two, files.open_to_lock(path) as three:
        files.lock(one, shared=True)
        files.lock(two, shared=True, wait=False)
        with pytest.raises(BlockingIOError):
            files.lock(three, wait=False)
        assert two.read() == b"why"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_folder_of_a_lock_is_made(tmp_path: Path) -> None:
    with files.locked(tmp_path / "a" / "b" / "lock"):
        pass
    assert names(tmp_path / "a" / "b") == ["lock"]


@pytest.mark.parametrize("word", [".replace(path", "os.replace", "os.rename", "flock", "NamedTemporaryFile", "mkstemp"])
def test_files_are_replaced_and_locked_in_one_place(word: str) -> None:
    found = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py") if word in file.read_text()}
    assert found <= {"host/files.py"}
