"""Pages of a rank's log: whole lines from anywhere, at the same cost in a log of any size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.runs.logs import RankLog
from jupyter_ddl.runs.pages import MAX_PAGE_BYTES, MAX_SEARCH_BYTES, page, search

if TYPE_CHECKING:
    from pathlib import Path

LINES = [f"line {number} é\n" for number in range(1000)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank-0.log"
    path.write_text("".join(LINES))
    return path


def turned(path: Path, limit: int, *, grows: bool = False) -> str:
    """Return all pages' text, one after the other."""
    text, at = "", 0
    with RankLog(path) as opened:
        while True:
            one = page(opened, at, limit, grows=grows)
            assert one.offset == at
            text, at = text + one.text, one.next
            if not one.text:
                return text + one.unfinished


@pytest.mark.parametrize("limit", [64, 1000, MAX_PAGE_BYTES])
def test_pages_are_whole_lines_and_all_of_them(log: Path, limit: int) -> None:
    assert turned(log, limit) == "".join(LINES)
    with RankLog(log) as opened:
        assert page(opened, 0, limit, grows=True).text.endswith("\n")


def test_a_page_begins_where_its_line_does(log: Path) -> None:
    with RankLog(log) as opened:
        for number in (0, 1, 500, 999):
            begin = sum(len(line.encode()) for line in LINES[:number])
            for within in (0, 1, len(LINES[number].encode()) - 1):
                assert page(opened, begin + within, 64, grows=False).text.startswith(LINES[number])


def test_a_position_after_the_end_is_the_end(log: Path) -> None:
    size = log.stat().st_size
    with RankLog(log) as opened:
        one = page(opened, 10**18, 64, grows=False)
    assert (one.text, one.unfinished, one.offset, one.next, one.size) == ("", "", size, size, size)


def test_an_unfinished_line_is_told_apart_while_the_log_grows(log: Path) -> None:
    size = log.stat().st_size
    with log.open("a") as file:
        file.write("50 %\r")
    with RankLog(log) as opened:
        one = page(opened, size, 64, grows=True)
        assert (one.text, one.unfinished, one.next) == ("", "50 %\r", size)
        assert page(opened, size, 64, grows=False).text == "50 %\r"
        with log.open("a") as file:
            file.write("100 %\n")
        assert page(opened, one.next, 64, grows=True).text == "50 %\r100 %\n"


@pytest.mark.parametrize("characters", [MAX_PAGE_BYTES // 4, 3 * MAX_PAGE_BYTES])
@pytest.mark.parametrize("character", ["x", "€", "😀"])
def test_a_line_of_any_length_comes_whole_or_in_pieces(log: Path, character: str, characters: int) -> None:
    with log.open("a") as file:
        file.write(character * characters + "\nafter it\n")
    assert turned(log, 64) == log.read_text()
    log.write_text(character * characters)
    assert turned(log, 64, grows=True) == character * characters


def test_invalid_utf_8_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"a\xff\xfe\n" + b"\x80" * (2 * MAX_PAGE_BYTES))
    assert turned(path, 64).startswith("a\ufffd\ufffd\n\ufffd")


def test_only_stderr(log: Path) -> None:
    log.with_suffix(".stderr.jsonl").write_text("[0, 10]\n[20, 10]\n")
    with RankLog(log, only_stderr=True) as opened:
        one = page(opened, 5, 64, grows=False)
    assert (one.text, one.size) == ("line 0 é\nline 2 é\n", 20)


def test_a_text_is_found_where_it_stands_and_from_there_on(log: Path) -> None:
    with RankLog(log) as opened:
        found, on = search(opened, "LINE 77", 0)
        assert found == sum(len(line.encode()) for line in LINES[:77])
        assert page(opened, found, 64, grows=False).text.startswith("line 77 é\n")
        again, _ = search(opened, "line 77", on)
        assert again == sum(len(line.encode()) for line in LINES[:770])
        assert search(opened, "É", 0)[0] is None
        assert search(opened, "é", 0)[0] == 7
        assert search(opened, "no such thing", 0) == (None, log.stat().st_size)


def test_a_search_is_bounded_and_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    at = MAX_SEARCH_BYTES + 12345
    with path.open("wb") as file:
        file.seek(at)
        file.write(b"needle")
    with RankLog(path) as opened:
        assert search(opened, "needle", 0) == (None, MAX_SEARCH_BYTES)
        assert search(opened, "needle", MAX_SEARCH_BYTES)[0] == at


def test_what_lies_across_two_blocks_is_found(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"." * ((1 << 20) - 3) + b"needle" + b"." * 10)
    with RankLog(path) as opened:
        assert search(opened, "needle", 0)[0] == (1 << 20) - 3


def test_a_page_of_two_gigabytes_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(2 << 30)
        file.seek(0, 2)
        file.write(b"\nlast\n")
    began_s = time.monotonic()
    with RankLog(path) as opened:
        assert page(opened, 0, 65536, grows=True).text.startswith("first\n")
        assert page(opened, (2 << 30) + 3, 65536, grows=True).text == "last\n"
        page(opened, 1 << 30, 65536, grows=True)
    assert time.monotonic() - began_s < 2
