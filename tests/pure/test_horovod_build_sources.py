"""Fetching, editing and caching Horovod's sources and wheels, with the real pip and no network."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from horovod_targets import make_target

from jupyter_ddl import paths
from jupyter_ddl.errors import BuildError, FolderNotWritable
from jupyter_ddl.horovod_build import edits, sdist
from jupyter_ddl.horovod_build.cache import Cache
from jupyter_ddl.horovod_build.pip import run_pip
from jupyter_ddl.horovod_build.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """An environment in which pip sees one folder, tmp_path / "links", and nothing else."""
    (tmp_path / "links").mkdir()
    # Neither the machine's pip.conf nor its PIP_* variables apply.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "links")}


def make_sdist(folder: Path) -> Path:
    file = folder / sdist.FILE_NAME
    with tarfile.open(file, "w:gz") as archive:
        for name, text in {
            "setup.py": "from setuptools import setup\nsetup(name='horovod', version='0.28.1')\n",
            "PKG-INFO": "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n",
        }.items():
            entry = tarfile.TarInfo(f"horovod-0.28.1/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file


def test_an_edit_replaces_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("one\ntwo\nthree\n")
    edits.apply(tmp_path, [edits.Edit("a.cc", "two\n", "2\n", "a test")])
    assert (tmp_path / "a.cc").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(("text", "times"), [("", 0), ("two\ntwo\n", 2), (None, 0)])
def test_an_edit_whose_text_is_not_there_once_is_refused(tmp_path: Path, text: str | None, times: int) -> None:
    if text is not None:
        (tmp_path / "a.cc").write_text(text)
    with pytest.raises(BuildError) as error:
        edits.apply(tmp_path, [edits.Edit("a.cc", "two\n", "2\n", "a test")])
    assert str(error.value) == (
        "An edit's text must stand exactly once in Horovod's a.cc. "
        f"Received: it stands there {times} times: 'two'. "
        "Upgrade jupyter_ddl: these are not the Horovod sources that it was written for."
    )


def test_every_edit_says_why() -> None:
    assert all(edit.why and edit.old != edit.new for edit in edits.EDITS)


def test_a_genuine_sdist_is_fetched_once(
    tmp_path: Path, offline: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_sdist(tmp_path / "links")
    monkeypatch.setattr(sdist, "SHA256", sdist._sha256(made))
    cache = tmp_path / "cache"
    cache.mkdir()
    fetched = sdist.fetch_sdist(cache, log=tmp_path / "log", env=offline)
    made.unlink()
    assert sdist.fetch_sdist(cache, log=tmp_path / "log", env=offline) == fetched
    assert (sdist.unpack_sdist(fetched, tmp_path / "unpacked") / "setup.py").is_file()


def test_an_sdist_with_another_hash_is_refused_before_its_code_runs(tmp_path: Path, offline: dict[str, str]) -> None:
    make_sdist(tmp_path / "links")
    (tmp_path / "cache").mkdir()
    with pytest.raises(BuildError) as error:
        sdist.fetch_sdist(tmp_path / "cache", log=tmp_path / "log", env=offline)
    assert str(error.value).startswith("pip must be able to download Horovod 0.28.1 with sha256 92a43f5a94c4.")
    assert "DO NOT MATCH THE HASHES" in str(error.value)
    assert "Got        " in (tmp_path / "log").read_text()


def test_an_sdist_that_was_damaged_in_the_cache_is_not_used(tmp_path: Path, offline: dict[str, str]) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / sdist.FILE_NAME).write_bytes(b"half of it")
    with pytest.raises(BuildError, match=r"No matching distribution found for horovod==0\.28\.1") as error:
        sdist.fetch_sdist(cache, log=tmp_path / "log", env=offline)
    assert "PIP_INDEX_URL, PIP_PROXY and pip.conf apply" in str(error.value)
    assert str(error.value).endswith(f"Full log: {tmp_path / 'log'}")
    assert not (cache / sdist.FILE_NAME).exists()


def test_a_pip_that_succeeds_without_the_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdist, "run_pip", lambda *_, **__: None)
    with pytest.raises(BuildError, match=r"horovod-0\.28\.1\.tar\.gz must have sha256 92a43f.* Received: no such file"):
        sdist.fetch_sdist(tmp_path, log=tmp_path / "log", env={})


def test_an_interpreter_without_pip_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    with pytest.raises(BuildError) as error:
        run_pip(["--version"], purpose="say its version", remedy="", log=tmp_path / "log")
    assert str(error.value) == (
        "Horovod is fetched and installed with this interpreter's pip. "
        f"Received: {sys.executable} has no pip. Run: {sys.executable} -m ensurepip"
    )


def test_the_cache_keeps_a_wheel_under_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "cache"))
    target, other = make_target(), make_target(mpi_version="4.1.4")
    cache = Cache.open()
    assert cache.find(target) is None
    wheel = tmp_path / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    for content in (b"first", b"second"):
        wheel.write_bytes(content)
        assert cache.keep(wheel, target).read_bytes() == content
    assert cache.find(target) == cache.wheels / target.key / wheel.name
    assert cache.find(other) is None
    assert '"openmpi"' in (cache.wheels / target.key / "target.json").read_text()
    assert len(list((cache.wheels / target.key).iterdir())) == 2


def test_a_cache_that_cannot_be_made_names_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(FolderNotWritable, match="Set JUPYTER_DDL_CACHE to a folder"):
        Cache.open()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_in_a_log_is_a_line_each_20_percent() -> None:
    seconds = iter(range(100))
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: next(seconds))
    progress.step("compiling")
    for percent in range(0, 101, 5):
        progress.percent(percent)
    progress.done("done")
    assert stream.getvalue().splitlines() == [
        "[   1 s] compiling",
        "[   2 s] compiling 20 %",
        "[   3 s] compiling 40 %",
        "[   4 s] compiling 60 %",
        "[   5 s] compiling 80 %",
        "[   6 s] compiling 100 %",
        "done",
    ]


def test_progress_on_a_terminal_stays_on_its_line() -> None:
    stream = Terminal()
    progress = Progress(stream, clock=lambda: 0.0)
    progress.step("compiling")
    progress.percent(7)
    progress.done("done")
    assert stream.getvalue() == "\r[   0 s] compiling\x1b[K\r[   0 s] compiling 7 %\x1b[K\ndone\n"


def test_pip_runs_beside_files_of_pythons_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "json", "queue", "logging", "pip"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('the wrong {name}')")
    monkeypatch.chdir(tmp_path)
    run_pip(["--version"], purpose="say its version", remedy="None.", log=tmp_path / "pip.log")
    assert "pip" in (tmp_path / "pip.log").read_text()
