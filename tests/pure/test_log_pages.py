"""Pages of lines as the log page gets them: around any place, all of them or those that match, within bounds."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loops
import pytest
from run_folders import make_run, own_session

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.log_marks import mark_record
from jupyter_ddl.runs.store import read_record
from jupyter_ddl.server import log_pages, log_search
from jupyter_ddl.server.log_pages import LinesQuery, page_of
from jupyter_ddl.views import log_filter
from jupyter_ddl.views.log_filter import errors, filter_of, line_text

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN_S = 1_795_000_000.0
TRACEBACK = b'Traceback (most recent call last):\n  File "<cell>", line 1\nValueError: no\n'


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))


@pytest.fixture
def folder() -> Path:
    folder: Path = make_run(outcome="failed", seconds=10.0)  # type: ignore[no-untyped-call]
    for rank in (0, 1):
        log = times = b""
        for step in range(100):
            times += mark_record(len(log), log.count(b"\n"), BEGIN_S + step + rank / 2)
            log += f"step {step} of rank {rank}\n".encode()
        times += mark_record(len(log), log.count(b"\n"), BEGIN_S + 100 + rank / 2)
        (folder / f"rank-{rank}.log").write_bytes(log + (TRACEBACK if rank else b""))
        (folder / f"rank-{rank}.times").write_bytes(times)
    return folder


def page(folder: Path, **asked: Any) -> dict[str, Any]:
    found = page_of(read_record(folder), LinesQuery(**asked))
    assert found is not None
    return found


def turned(folder: Path, **asked: Any) -> Iterator[dict[str, Any]]:
    """Yield all pages from the start on."""
    place = "start"
    while True:
        one = page(folder, after=place, **asked)
        yield one
        if one["at_end"]:
            return
        place = one["next"]


def turned_back(folder: Path, **asked: Any) -> Iterator[dict[str, Any]]:
    one = page(folder, **asked)
    yield one
    while not one["at_start"]:
        one = page(folder, before=one["begin"], **asked)
        yield one


def texts(one: dict[str, Any]) -> list[str]:
    return [line[2] for line in one["lines"]]


@pytest.mark.parametrize("asked", [{}, {"rank": 1}, {"pattern": "STEP 4"}, {"rank": 0, "pattern": "7 of"}])
@pytest.mark.parametrize("most", [1, 7, 2_000])
def test_pages_are_all_lines_in_both_directions(folder: Path, asked: dict[str, Any], most: int) -> None:
    ranks = [asked["rank"]] if "rank" in asked else [0, 1]
    whole = [f"step {step} of rank {rank}" for step in range(100) for rank in ranks]
    whole += TRACEBACK.decode().splitlines() if 1 in ranks else []
    wanted = [line for line in whole if asked.get("pattern", "").lower() in line]
    assert [text for one in turned(folder, most=most, **asked) for text in texts(one)] == wanted
    back = turned_back(folder, most=most, **asked)
    assert [text for one in back for text in reversed(texts(one))] == wanted[::-1]


def test_a_place_between_two_pages_is_the_same_from_both_sides(folder: Path) -> None:
    last = page(folder, most=5)
    assert texts(page(folder, before=last["begin"], most=2)) == ["step 98 of rank 0", "step 98 of rank 1"]
    assert texts(page(folder, after=last["begin"])) == texts(last)
    assert (last["at_end"], last["at_start"], last["next_share"]) == (True, False, 1.0)
    middle = page(folder, share=0.5, most=2)
    assert texts(middle) == ["step 50 of rank 1", "step 51 of rank 0"]
    assert middle["begin_share"] == pytest.approx(0.5)
    # A line's own place: what is found is looked for from there on.
    place = page(folder, pattern="step 7 of rank 1", after="start", most=1)["lines"][0][3]
    assert texts(page(folder, after=f"{place}+", most=1)) == ["step 8 of rank 0"]
    assert texts(page(folder, after=place, most=2)) == ["step 7 of rank 1", "step 8 of rank 0"]
    assert texts(page(folder, before=place, most=1)) == ["step 7 of rank 0"]


def test_an_active_runs_last_page_is_continued_where_it_ended() -> None:
    folder = make_run(session=own_session())  # type: ignore[no-untyped-call]
    log = folder / "rank-0.log"
    log.write_bytes(b"one\nhal")
    last = page(folder, rank=0)
    assert (texts(last), last["unfinished"], last["at_end"]) == (["one"], [[0, "hal"]], True)
    with log.open("ab") as file:
        file.write(b"f\nthree\n")
    more = page(folder, rank=0, after=last["next"])
    assert (texts(more), more["unfinished"]) == (["half", "three"], [])
    assert page(folder, rank=0, after=more["next"])["lines"] == []


def test_errors_are_found_and_numbered(folder: Path) -> None:
    found = page(folder, only_errors=True)
    assert [(line[0], line[1], line[2]) for line in found["lines"]] == [
        (1, 101, "Traceback (most recent call last):"),
        (1, 103, "ValueError: no"),
    ]


def test_what_is_sought_is_what_a_terminal_shows() -> None:
    assert line_text(b"1/4\r2/4\r4/4\r") == "4/4"
    assert line_text(b"\x1b[1;31mred\x1b[0m\x00\x07 \x1b]0;title\x07end") == "red end"
    assert line_text("é".encode()[:1] + b"x") == "�x"
    assert len(line_text(b"x" * 10**6)) < 11_000
    assert line_text(b"x" * 10**6 + b"\r\x1b[Klast") == "last"
    assert filter_of("4/4", is_expression=False, is_exact=False).shown(b"1/4\r4/4") == "4/4"
    assert filter_of("1/4", is_expression=False, is_exact=False).shown(b"1/4\r4/4") is None
    assert filter_of("RED E", is_expression=False, is_exact=False).shown(b"red\x1b[0m end") == "red end"
    assert filter_of("RED", is_expression=False, is_exact=True).shown(b"red") is None
    assert filter_of("^r.d$", is_expression=True, is_exact=True).shown(b"red\r") == "red"
    assert filter_of(".", is_expression=False, is_exact=True).shown(b"red") is None


@pytest.mark.parametrize("text", ["red", "RED", "é", "."])
@pytest.mark.parametrize("is_exact", [False, True])
def test_a_block_is_skipped_only_where_no_line_of_it_matches(text: str, is_exact: bool) -> None:
    wanted = filter_of(text, is_expression=False, is_exact=is_exact)
    texts_of = ("red\n", "RED\nx\n", "É\n", "é\n", "r\x1b[0med\n", "x\rred\n", "a.b\n", "none\n")
    for block in (text.encode() for text in texts_of):
        lines = [line for line in block.split(b"\n") if line]
        matches = any(wanted.shown(line) is not None for line in lines)
        assert not (matches and wanted.may_skip is not None and wanted.may_skip(block)), block
    look = errors().may_skip
    assert look is not None
    assert look(b"all is well\n")
    assert not look(TRACEBACK)


def test_the_browser_has_the_same_errors() -> None:
    source = Path(log_filter.__file__).parents[2] / "labextension/src/model/logs.ts"
    assert f"/{log_filter.ERROR}/" in source.read_text()
    for line in ("Traceback (most recent call last):", "keras.OpError: x", "Fatal Python error: Aborted", "FATAL: x"):
        assert re.search(log_filter.ERROR, line), line
    assert re.search(log_filter.ERROR, "no errors, terror or exceptional cases") is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"pattern": "(", "is_expression": True}, r"A filter is a regular expression. Received: '\(': missing \)"),
        ({"after": "x"}, "A place in a log is one that a page named. Received: 'x'."),
    ],
)
def test_what_is_no_expression_and_no_place_is_said(folder: Path, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        page(folder, **asked)


def test_no_page_looks_at_more_than_its_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pages, "MAX_LOOKED_BYTES", 100)
    pages = list(turned(folder, rank=0, pattern="step 99"))
    assert len(pages) > 10
    assert [text for one in pages for text in texts(one)] == ["step 99 of rank 0"]
    monkeypatch.setattr(log_pages, "MAX_LOOKED_BYTES", 1 << 30)
    monkeypatch.setattr(log_pages, "LOOK_S", 0.0)
    assert len(list(turned_back(folder, pattern="step 0 "))) > 2


def test_an_expression_is_matched_in_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = read_record(folder)

    def ask(**asked: Any) -> dict[str, Any]:
        found = loops.run(log_search.page_of_expression(record, LinesQuery(is_expression=True, **asked)))
        assert found is not None
        return found

    assert texts(ask(pattern=r"^step (\d)\1 .*[1]$")) == [f"step {step} of rank 1" for step in range(11, 100, 11)]
    with pytest.raises(InvalidInput, match=r"Received: '\[': unterminated character set"):
        ask(pattern="[")
    assert loops.run(log_search.page_of_expression(record, LinesQuery(rank=7, pattern="a"))) is None
    monkeypatch.setattr(log_search, "DEADLINE_S", 1.5)
    (folder / "rank-0.log").write_bytes(b"a" * 60 + b"\n")
    begun_s = time.monotonic()
    with pytest.raises(InvalidInput, match=r"which takes longer. Write it without repetitions of repetitions"):
        ask(pattern="(a+)+b", rank=0)
    assert time.monotonic() - begun_s < 30
