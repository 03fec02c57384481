"""Events read from a run's folder, also from one that a kill has left."""

import json

import pytest
from run_folders import write_events

from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import OutputChunk, RankFailed, RankFinished, RunFinished, RunStarted
from jupyter_ddl.runs.reading import causes_of, read_events, run_events

STARTED = RunStarted("r", (0, 1), 2, 100.0)
FINISHED = RunFinished("r", "finished", 1.5)


def out(rank, text, n):
    return OutputChunk("r", rank, "stdout", text, n=n)


def done(rank, n):
    return RankFinished("r", rank, 101.0, n=n)


def test_a_file_that_is_not_there_is_empty(tmp_path):
    assert list(read_events(tmp_path / "events.jsonl")) == []
    assert list(run_events(tmp_path / "nowhere")) == []


def test_what_is_written_is_read(tmp_path):
    events = [STARTED, out(0, "grüße \x1b[31m \ud800 \u2028", 1), done(0, 2), FINISHED]
    write_events(tmp_path, events)
    assert list(run_events(tmp_path)) == events


@pytest.mark.parametrize("cut", range(1, len(json.dumps(encode(out(0, "two", 2)))), 7))
def test_a_half_written_last_line_is_left_out(tmp_path, cut):
    write_events(tmp_path, [STARTED, out(0, "one", 1)])
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write(json.dumps(encode(out(0, "two", 2)))[:cut])
    assert list(run_events(tmp_path)) == [STARTED, out(0, "one", 1)]


def test_a_line_that_goes_on_after_a_half_one_is_read(tmp_path):
    line = json.dumps(encode(out(0, "lost", 1)))
    for cut in (5, 30, len(line) - 1):
        (tmp_path / "events.jsonl").write_text(f"{line[:cut]}{json.dumps(encode(out(0, 'kept', 2)))}\n")
        assert list(run_events(tmp_path)) == [out(0, "kept", 2)]


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"[1]", b"17", b'"text"', b"{}", b'{"type": []}', b'{"type": "from_the_future", "x": 1}',
     b'{"type": "output", "run": "r"}', b"\xff\xfe{", b'{"type": "out', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_event_of_ours_is_left_out(tmp_path, line):
    known = json.dumps(encode(STARTED)).encode()
    (tmp_path / "events.jsonl").write_bytes(line + b"\n" + known + b"\n")
    assert list(run_events(tmp_path)) == [STARTED]


def test_a_field_of_a_newer_version_is_left_out(tmp_path):
    (tmp_path / "events.jsonl").write_text(json.dumps({**encode(FINISHED), "colour": "red"}) + "\n")
    assert list(run_events(tmp_path)) == [FINISHED]


def test_what_only_the_ranks_wrote_is_there_and_before_the_end(tmp_path):
    """A kernel was killed after rank 0's first event, and its ranks went on."""
    write_events(tmp_path, [STARTED, out(0, "a", 1), FINISHED])
    write_events(tmp_path, [out(0, "a", 1), out(0, "b", 2), done(0, 3)], "rank-0.events.jsonl")
    write_events(tmp_path, [out(1, "c", 1), out(1, "d", 2)], "rank-1.events.jsonl")
    expected = [STARTED, out(0, "a", 1), out(0, "b", 2), out(1, "c", 1), done(0, 3), out(1, "d", 2), FINISHED]
    assert list(run_events(tmp_path)) == expected


def test_nothing_comes_twice_where_the_merge_is_whole(tmp_path):
    merged = [STARTED, out(1, "b", 1), out(0, "a", 1), done(1, 2), done(0, 2), FINISHED]
    write_events(tmp_path, merged)
    for rank in (0, 1):
        write_events(
            tmp_path, [event for event in merged if getattr(event, "rank", None) == rank], f"rank-{rank}.events.jsonl"
        )
    assert list(run_events(tmp_path)) == merged


def test_what_a_rank_says_after_its_end_is_no_part_of_the_run(tmp_path):
    write_events(tmp_path, [STARTED, done(0, 1), FINISHED])
    write_events(tmp_path, [done(0, 1), out(0, "a thread, later", 2)], "rank-0.events.jsonl")
    write_events(tmp_path, [out(1, "b", 1), done(1, 2), out(1, "a thread, later", 3)], "rank-1.events.jsonl")
    assert list(run_events(tmp_path)) == [STARTED, done(0, 1), out(1, "b", 1), done(1, 2), FINISHED]


def test_a_rank_whose_last_line_is_long_or_half_is_read(tmp_path):
    long = out(0, "x" * 200_000, 2)
    write_events(tmp_path, [out(0, "a", 1)])
    write_events(tmp_path, [out(0, "a", 1), long], "rank-0.events.jsonl")
    assert list(run_events(tmp_path)) == [out(0, "a", 1), long]
    with (tmp_path / "rank-0.events.jsonl").open("a") as file:
        file.write('{"type": "outp')
    assert list(run_events(tmp_path)) == [out(0, "a", 1), long]


def test_the_cause_comes_first_and_released_ranks_are_none():
    def failed(rank, at_s, *, released=False, name="ValueError"):
        return RankFailed("r", rank, "host", name, "no", (), released, at_s)

    effect, late, first = failed(0, 1.0, released=True), failed(1, 3.0), failed(2, 2.0)
    assert causes_of([effect, late, first]) == [first, late]
    assert causes_of([effect]) == [effect]
    assert causes_of([failed(3, 0.5, name="CollectiveOnSubset"), first]) == [first]
    assert causes_of([]) == []
