"""The logs of all ranks, merged by time: forwards and backwards from any place, in logs of any size and any state."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from run_folders import make_run, own_session

from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.log_marks import MARK_BYTES, mark_of, mark_record
from jupyter_ddl.runs import merged_lines as merging
from jupyter_ddl.runs.merged_lines import END, EVENLY, MARKED, OF_EVENTS, START, cursor_of, cursor_text, merged_lines
from jupyter_ddl.runs.rank_lines import Cursor, Line
from jupyter_ddl.runs.store import read_record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RUN = "2026-11-20T18-03-07-default-3f9c"
BEGIN_S = 1_795_000_000.0


class Part(NamedTuple):
    at_s: float
    text: bytes
    is_stderr: bool = False


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))


def write(folder: Path, rank: int, parts: Iterable[Part], *, marked: bool = True) -> None:
    log = times = spans = b""
    for at_s, text, is_stderr in parts:
        times += mark_record(len(log), log.count(b"\n"), BEGIN_S + at_s)
        spans += f"[{len(log)}, {len(text)}]\n".encode() if is_stderr else b""
        log += text
    (folder / f"rank-{rank}.log").write_bytes(log)
    if marked:
        (folder / f"rank-{rank}.times").write_bytes(times)
    if spans:
        (folder / f"rank-{rank}.stderr.jsonl").write_bytes(spans)


def all_of(folder: Path, rank: int | None = None, *, only_stderr: bool = False, start: Cursor = START) -> list[Line]:
    with merged_lines(read_record(folder), rank, only_stderr=only_stderr) as lines:
        assert lines is not None
        return list(lines.forward(start))


def data_of(lines: Iterable[Line]) -> list[bytes]:
    return [line.data or b"" for line in lines]


def shown(lines: Iterable[Line]) -> list[tuple[int, bytes]]:
    return [(line.rank, line.data or b"") for line in lines]


@pytest.fixture
def over() -> Path:
    folder: Path = make_run(RUN, outcome="finished", seconds=10.0)  # type: ignore[no-untyped-call]
    return folder


def test_lines_are_in_the_order_in_which_they_ended(over: Path) -> None:
    write(over, 0, [Part(0, b"a\nb"), Part(2, b"b\nc\r\n"), Part(5, b"cut off")])
    write(over, 1, [Part(1, b"x\n\n"), Part(4, "é".encode()[:1]), Part(6, "é".encode()[1:] + b"\n")])
    expected = [(0, b"a"), (1, b"x"), (1, b""), (0, b"bb"), (0, b"c\r"), (0, b"cut off"), (1, "é".encode())]
    lines = all_of(over)
    assert shown(lines) == expected
    assert [line.number for line in lines] == [1, 1, 2, 2, 3, 4, 3]
    assert [line.at_us / 1e6 - BEGIN_S for line in lines] == [0, 1, 1, 2, 2, 5, 6]


def random_parts(dice: random.Random) -> list[Part]:
    pieces = [b"", b"\n", b"line\n", b"li", b"ne\r", b"1/2\r2/2\n", b"a\nb\nc\n", "ü".encode()[:1], b"\n\n", b"x" * 40]
    at_s, parts = 0.0, []
    for _ in range(dice.randrange(40)):
        at_s += dice.choice([0.0, 0.1, 0.25, 3.0])
        parts.append(Part(at_s, b"".join(dice.choices(pieces, k=dice.randrange(4))), dice.random() < 0.3))
    return parts


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("only_stderr", [False, True])
def test_from_each_place_what_follows_and_what_precedes_is_the_whole(
    over: Path, monkeypatch: pytest.MonkeyPatch, seed: int, only_stderr: bool
) -> None:
    dice = random.Random(seed)
    # As of more ranks than files may be open.
    monkeypatch.setattr(merging, "_FILES", dice.choice([0, 100]))
    for rank in range(dice.randrange(1, 5)):
        write(over, rank, random_parts(dice))
    with merged_lines(read_record(over), None, only_stderr=only_stderr) as lines:
        assert lines is not None
        whole = list(lines.forward(START))
        assert list(lines.backward(END)) == whole[::-1]
        times = [(line.at_us, line.rank) for line in whole]
        assert times == sorted(times)
        for at, line in list(enumerate(whole))[seed % 3 :: 3]:
            here = Cursor(line.at_us, line.rank, line.begin)
            assert list(lines.forward(here)) == whole[at:]
            assert list(lines.backward(here)) == whole[:at][::-1]
            after = Cursor(line.at_us, line.rank, line.end)
            assert list(lines.forward(after)) == whole[at + 1 :]
            assert list(lines.backward(after)) == whole[: at + 1][::-1]
            assert cursor_of(cursor_text(here)) == here
        # What is skipped is what is not wanted.
        wanted = [line for line in whole if b"x" in (line.data or b"")]
        kept = [line for line in lines.forward(START, lambda block: b"x" not in block) if b"x" in (line.data or b"")]
        assert kept == wanted
        kept = [line for line in lines.backward(END, lambda block: b"x" not in block) if b"x" in (line.data or b"")]
        assert kept == wanted[::-1]
    # Nothing is lost: each rank's own lines, in their order, are its log.
    for rank in {line.rank for line in whole}:
        own = all_of(over, rank, only_stderr=only_stderr)
        assert data_of(own) == data_of(line for line in whole if line.rank == rank)
        if not only_stderr:
            assert b"\n".join(data_of(own)) == (over / f"rank-{rank}.log").read_bytes().removesuffix(b"\n")
            assert [line.number for line in own] == list(range(1, len(own) + 1))
            assert [line.number for line in whole if line.rank == rank] == [line.number for line in own]


def test_clocks_of_other_hosts_are_corrected(over: Path) -> None:
    record = json.loads((over / "run.json").read_text())
    fields = {"hosts": {"0": "a", "1": "b"}, "clock_offsets_s": {"b": 60.0}}
    (over / "run.json").write_text(json.dumps(record | fields))
    write(over, 0, [Part(0, b"first\n"), Part(2, b"third\n")])
    write(over, 1, [Part(61, b"second\n")])
    assert [line.data for line in all_of(over)] == [b"first", b"second", b"third"]


def test_of_an_active_run_a_line_is_merged_once_it_is_whole_and_a_second_old() -> None:
    folder = make_run(RUN, session=own_session())  # type: ignore[no-untyped-call]
    now_s = time.time() - BEGIN_S
    write(folder, 0, [Part(now_s - 9, b"old\n"), Part(now_s - 5, b"half")])
    write(folder, 1, [Part(now_s - 8, b"other\n"), Part(now_s + 60, b"new\n")])
    with merged_lines(read_record(folder), None) as lines:
        assert lines is not None
        found = list(lines.forward(START))
        assert shown(found) == [(0, b"old"), (1, b"other")]
        assert lines.unfinished() == [(0, b"half")]
    last = found[-1]
    with (folder / "rank-0.log").open("ab") as log, (folder / "rank-0.times").open("ab") as times:
        times.write(mark_record(8, 1, BEGIN_S + now_s - 2))
        log.write(b" and half\n")
    assert shown(all_of(folder, start=Cursor(last.at_us, last.rank, last.end))) == [(0, b"half and half")]
    # One rank's own lines need no time.
    assert shown(all_of(folder, 1)) == [(1, b"other"), (1, b"new")]


def test_older_runs_are_merged_by_their_events_or_as_if_written_evenly(over: Path) -> None:
    for rank in (0, 1):
        write(over, rank, [Part(0, b"one\ntwo\n"), Part(1, b"three\n")], marked=False)
    with merged_lines(read_record(over), None) as lines:
        assert lines is not None
        assert lines.timed == EVENLY
        assert [line.data for line in lines.forward(START)] == [b"one", b"two", b"three"] * 2
    chunks = [
        OutputChunk(RUN, 0, "stdout", "one\ntwo\n", 0, BEGIN_S, 8),
        OutputChunk(RUN, 1, "stdout", "one\ntwo\n", 0, BEGIN_S + 1, 8),
        OutputChunk(RUN, 1, "stdout", "three\n", 0, BEGIN_S + 2, 14),
        OutputChunk(RUN, 0, "stdout", "three\n", 0, BEGIN_S + 3, 14),
    ]
    (over / "events.jsonl").write_bytes(b"".join(map(as_line, chunks)))
    with merged_lines(read_record(over), None) as lines:
        assert lines is not None
        assert lines.timed == OF_EVENTS
        assert [line.rank for line in lines.forward(START)] == [0, 0, 1, 1, 1, 0]


def test_what_is_no_mark_costs_the_order_and_no_line(over: Path) -> None:
    write(over, 0, [Part(at, b"line\n") for at in range(300)])
    times = over / "rank-0.times"
    for content in (b"x" * 10_000, times.read_bytes()[:-7], mark_record(10**12, 5, BEGIN_S) * 9, b""):
        times.write_bytes(content)
        assert len(all_of(over)) == 300, content[:10]
    # A hole of a terabyte where marks should be.
    with times.open("wb") as file:
        file.truncate(1 << 40)
    assert len(all_of(over)) == 300
    times.unlink()
    times.symlink_to(over / "rank-0.log")
    assert len(all_of(over)) == 300


def test_a_line_without_end_is_read_in_pieces(over: Path) -> None:
    size = 3 << 20
    write(over, 0, [Part(0, b"a\n"), Part(1, b"x" * size), Part(2, b"\nb\n")])
    with merged_lines(read_record(over), 0) as lines:
        assert lines is not None
        found = list(lines.forward(START))
        assert sum(len(data) for data in data_of(found) if data.startswith(b"x")) == size
        assert max(map(len, data_of(found))) <= 1 << 18
        assert [line.number for line in found][-1] == 3
        back = list(lines.backward(END))
        assert (back[0].data, back[0].number) == (b"b", 3)
        assert sum(len(data) for data in data_of(back) if data.startswith(b"x")) == size


def test_a_gigabyte_of_four_ranks_opens_at_once(over: Path) -> None:
    block, blocks = b"a line of the log of a rank\n" * 2_340, 4_096
    for rank in range(4):
        times = b"".join(mark_record(at * len(block), at * 2_340, BEGIN_S + at + rank / 4) for at in range(blocks))
        (over / f"rank-{rank}.times").write_bytes(times)
        with (over / f"rank-{rank}.log").open("wb") as log:
            # As long as a quarter of a gigabyte, but what stands before its last block is a hole.
            log.seek(len(block) * (blocks - 1))
            log.write(block)
    assert sum(path.stat().st_size for path in over.glob("*.log")) > 10**9
    begun_s = time.perf_counter()
    with merged_lines(read_record(over), None) as lines:
        assert lines is not None
        newest = lines.backward(END)
        found = [next(newest) for _ in range(5_000)]
    seconds = time.perf_counter() - begun_s
    assert [line.rank for line in found[:2_341]] == [3] * 2_340 + [2]
    assert found[0].number == blocks * 2_340
    # 0.02 s here: the rest of the log is not read.
    assert seconds < 5


def test_a_mark_is_a_record_of_one_length() -> None:
    record = mark_record(12, 3, BEGIN_S + 0.25)
    assert len(record) == MARK_BYTES
    assert mark_of(record) == (12, 3, 1_795_000_000_250_000)
    assert mark_of(record.replace(b"000000000000003", b"-" * 15)) == (12, None, 1_795_000_000_250_000)
    assert mark_of(b"x" * MARK_BYTES) is None
    assert MARKED == "marked"
