"""What may lie in a file's place is read as data: it is never waited for, followed, or taken whole however large."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timeout(30)


def make_socket(path: Path) -> None:
    # A socket's path has 107 bytes at most, which pytest's folders come near to.
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{folder}/s")
        Path(folder, "s").rename(path)


def make_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a device can be made by root alone")
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no device can be made here")


IN_ITS_PLACE: dict[str, Callable[[Path], None]] = {
    "a link": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "a socket": make_socket,
    "a device": make_device,
}


@pytest.mark.parametrize("kind", IN_ITS_PLACE)
def test_what_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    IN_ITS_PLACE[kind](path)
    assert not untrusted_files.is_file(path)
    for read in (
        untrusted_files.open_file,
        untrusted_files.read_bytes,
        untrusted_files.read_json,
        untrusted_files.read_object,
    ):
        with pytest.raises(OSError, match=f"not a file but {kind}"):
            read(path)
    # Nor written to: a FIFO that nobody reads would be waited for, and a link leads elsewhere.
    with pytest.raises(OSError, match=r"not a file|No such device|symbolic|Is a directory|Operation not"):
        files.open_to_append(path)


def test_a_link_to_a_file_of_ones_own_is_not_followed_either(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "run.json").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="not a file but a link"):
        untrusted_files.read_object(tmp_path / "run.json")


def test_another_users_file_is_read_only_where_that_may_be(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root alone can give a file away")
    path = tmp_path / "cluster.json"
    path.write_text("{}")
    os.chown(path, 4242, 4242)
    assert untrusted_files.read_object(path) == {}
    with pytest.raises(PermissionError, match="a file of user 4242"):
        untrusted_files.read_object(path, only_own=True)


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 8,388,608 bytes"):
        untrusted_files.read_json(path)
    assert untrusted_files.read_beginning(path, 10) == bytes(10)


NO_JSON = {
    "nothing": b"",
    "cut": b'{"run": "2026',
    "no text": b"\xff\xfe",
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "just too deep": b"[" * 65 + b"]" * 65,
    "an integer of 5,000 digits": b"9" * 5_000,
    "zeros": bytes(100),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json_of_ours_is_one_kind_of_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(NO_JSON[name])
    with pytest.raises(ValueError, match=r"."):
        untrusted_files.read_json(path)


@pytest.mark.parametrize("content", [[], "text", 3, None, True, 1e400])
def test_json_that_is_no_object_is_an_error(content: object, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"must hold a JSON object. Received: {type(content).__name__}"):
        untrusted_files.read_object(path)


def test_what_is_deep_enough_is_json() -> None:
    text = "[" * 64 + "]" * 64
    assert json.dumps(parse_json(text)) == text
    many = json.dumps([[[1]] * 50] * 50)
    assert parse_json(many.encode()) == json.loads(many)


def read_lines(path: Path, limit: int = untrusted_files.MAX_LINE_BYTES) -> list[bytes]:
    with untrusted_files.open_file(path) as file:
        return list(untrusted_files.lines(file, limit))


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    wanted = [b"%d " % number * (number % 300) + b"\n" for number in range(20_000)] + [b"unfinished"]
    path.write_bytes(b"".join(wanted))
    assert read_lines(path) == wanted
    path.write_bytes(b"")
    assert read_lines(path) == []


def test_a_line_that_is_too_long_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\n" + b"x" * 3_000_000 + b"\ntwo\n" + b"y" * 100)
    assert read_lines(path, 50) == [b"one\n", b"two\n"]


def test_holes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.seek(1 << 42)
        file.write(b"\nlast\n")
    if path.stat().st_blocks > 1000:
        pytest.skip("this file system has no holes")
    # Four terabytes would take an hour.
    found = read_lines(path)
    assert found[0] == b"first\n"
    assert found[-1] == b"last\n"


@pytest.mark.parametrize("step_bytes", [1, 4, 100])
def test_lines_of_a_file_that_grows_come_whole_and_once(tmp_path: Path, step_bytes: int) -> None:
    path, position, found = tmp_path / "events.jsonl", 0, []
    assert untrusted_files.lines_from(path, position, step_bytes) == ([], 0)
    for written in (b"one\ntw", b"o", b"\nan even longer one\n\r\n", b"cut"):
        with path.open("ab") as file:
            file.write(written)
        while True:
            lines, position = untrusted_files.lines_from(path, position, step_bytes)
            if not lines:
                break
            found += lines
    assert found == [b"one", b"two", b"an even longer one", b"\r"]
    assert position == path.stat().st_size - len(b"cut")
