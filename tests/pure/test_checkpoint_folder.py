"""The folder of `--checkpoint`: whole files, damaged ones, and the last two."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, BinaryIO

import pytest

from jupyter_ddl.checkpoints.writer import KEPT, require_writable, write
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.checkpoint_folder import damaged, newest

if TYPE_CHECKING:
    from pathlib import Path


def content(file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights", bytes(range(256)) * 64)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_last_two_of_each_fit_are_kept(tmp_path: Path) -> None:
    assert newest(tmp_path / "none yet") is None
    for epoch in range(1, 12):
        write(tmp_path, 1, epoch, content)
    write(tmp_path, 2, 1, content)
    assert KEPT == 2
    assert names(tmp_path) == ["fit-1/epoch-10.npz", "fit-1/epoch-11.npz", "fit-2/epoch-1.npz"]
    last, first = newest(tmp_path), newest(tmp_path, fit=1)
    assert last is not None
    assert first is not None
    assert (last.fit, last.epoch, first.fit, first.epoch) == (2, 1, 1, 11)
    assert first.path == tmp_path / "fit-1" / "epoch-11.npz"


def test_what_is_cut_off_or_damaged_is_passed_over(tmp_path: Path) -> None:
    whole = write(tmp_path, 1, 3, content)
    data = whole.path.read_bytes()
    broken = whole.path.with_name("epoch-4.npz")
    for length in range(0, len(data), 97):
        broken.write_bytes(data[:length])
        assert newest(tmp_path) == whole, f"cut off after {length} bytes"
    for position in range(0, len(data), 31):
        changed = bytearray(data)
        changed[position] ^= 0xFF
        broken.write_bytes(changed)
        found = newest(tmp_path)
        # Some bytes of an archive say nothing, such as when it was made.
        assert found == whole or (found is not None and _read(found.path) == _read(whole.path)), position
    broken.write_bytes(data[:-1])
    assert [found.epoch for found in damaged(tmp_path)] == [4]


def _read(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0])


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    whole = write(tmp_path, 1, 1, content)

    def fails(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, 1, 2, fails)
    assert names(tmp_path) == ["fit-1/epoch-1.npz"]
    # What a killed process left.
    (tmp_path / "fit-1" / ".epoch-2.npz.3f9c61d2.new").write_bytes(b"half")
    assert newest(tmp_path) == whole
    write(tmp_path, 1, 2, content)
    assert names(tmp_path) == ["fit-1/epoch-1.npz", "fit-1/epoch-2.npz"]


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InvalidInput) as raised:
        require_writable(file / "inside")
    assert str(raised.value) == (
        f"--checkpoint takes a folder that rank 0 can write to. Received: {file / 'inside'} (Not a directory). "
        "Pass another folder."
    )


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["a FIFO", "a folder", "a link to a device", "a link to nothing"])
def test_what_is_no_file_is_passed_over(kind: str, tmp_path: Path) -> None:
    whole = write(tmp_path, 1, 1, content)
    odd = tmp_path / "fit-1" / "epoch-2.npz"
    make = {"a FIFO": lambda: os.mkfifo(odd), "a folder": odd.mkdir}.get(kind)
    if make is None:
        odd.symlink_to("/dev/zero" if kind == "a link to a device" else "nothing")
    else:
        make()
    (tmp_path / f"fit-{'9' * 5000}"[:250]).mkdir()
    assert newest(tmp_path) == whole
    assert [found.path for found in damaged(tmp_path)] == [odd]


def test_a_folder_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    (tmp_path / "fit-1").touch()
    assert newest(tmp_path) is None
    assert newest(tmp_path / "fit-1") is None
    assert damaged(tmp_path) == []


def test_a_link_in_a_files_place_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text("mine")
    (tmp_path / "fit-1").mkdir()
    (tmp_path / "fit-1" / ".epoch-1.npz.new").symlink_to(victim)
    assert newest(tmp_path) is None
    found = write(tmp_path, 1, 1, content)
    assert victim.read_text() == "mine"
    assert newest(tmp_path) == found


def test_a_folder_without_a_working_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidInput) as caught:
        CellOptions(checkpoint="saved").checked((0, 1), 2)
    assert str(caught.value) == (
        "--checkpoint takes a folder from the working folder, or a whole path. Received: saved (No such file or "
        "directory). Pass a whole path, or go to a folder that is there with `%cd`."
    )
    with pytest.raises(InvalidInput, match="--checkpoint takes a folder from the working folder"):
        CellOptions(checkpoint="~nobody-of-that-name/saved").checked((0, 1), 2)
    assert CellOptions(checkpoint="/saved").checked((0, 1), 2).checkpoint == "/saved"
