"""What a cell, a kill or another user left among the runs hides no run, blocks nothing, and reaches no terminal."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from run_folders import make_run, write_events
from users import STRANGER, as_user, needs_root
from whole_fault import FAULT

from jupyter_ddl.cli import main
from jupyter_ddl.host import process_identity
from jupyter_ddl.protocol import events, rank_life
from jupyter_ddl.protocol.codec import as_line, decode, encode
from jupyter_ddl.runs.choice import Choice
from jupyter_ddl.runs.folder import RunFolder, this_process, unfinished
from jupyter_ddl.runs.prune import plan_pruning, reason_to_stay
from jupyter_ddl.runs.reading import event_of, rank_files, run_events
from jupyter_ddl.runs.store import find, foreign, newest_first, read_record, resolve
from jupyter_ddl.runs.unseen import last_words
from jupyter_ddl.server import runs as hub
from jupyter_ddl.server.log_pages import LinesQuery, page_of
from jupyter_ddl.server.run_lists import listing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What hangs, hangs for ever.
pytestmark = pytest.mark.timeout(60)

GOOD, BAD = "2026-11-20T18-03-07-good-0001", "2026-11-20T18-03-08-bad-0002"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def good_run() -> Path:
    folder = make_run(GOOD, outcome="finished", seconds=1.0, ranks=[0], world_size=1)
    (folder / "rank-0.log").write_text("hello\n")
    write_events(folder, [events.OutputChunk("r", 0, "stdout", "hello\n"), events.RunFinished("r", "finished", 1.0)])
    return folder


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


PLACED: dict[str, Callable[[Path], Any]] = {
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: path.mkdir(),
    "four terabytes of nothing": hole,
    "no text": lambda path: path.write_bytes(b"\xff\x00\xfe" * 100),
    "half a line": lambda path: path.write_text('{"type":'),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
}
FILES = ("run.json", "cell.py", "events.jsonl", "rank-0.log", "rank-0.stderr.jsonl", "rank-0.events.jsonl")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", PLACED)
def test_whatever_is_in_a_files_place_every_run_can_be_listed_and_read(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run()
    bad = make_run(BAD, outcome="finished", seconds=1.0)
    (bad / "rank-0.log").write_text("hello\n")
    (bad / name).unlink(missing_ok=True)
    PLACED[kind](bad / name)
    for arguments in (("runs",), ("show", GOOD), ("show", BAD), ("logs", GOOD), ("runs", "--prune", "--keep", "1")):
        assert main([*arguments]) == 0, arguments
        assert "Traceback" not in "".join(capsys.readouterr())
    for options in ((), ("--stderr",), ("--tail", "2"), ("--grep", "x")):
        if kind == "four terabytes of nothing" and "--grep" in options:
            # All of it is asked for.
            continue
        assert main(["logs", BAD, *options]) == 0
    assert [record.run for record in newest_first()] == [BAD, GOOD]
    assert listing(Choice(), None, 10)["more"] is False
    json.dumps([hub.as_json(read_record(bad)), hub._details(bad), hub._sizes(bad)], allow_nan=False)
    for only_stderr in (False, True):
        for rank in (None, 0):
            page_of(read_record(bad), LinesQuery(rank=rank, only_stderr=only_stderr, pattern="hello"))
    assert list(last_words(bad, BAD, {}, [])) == []
    assert reason_to_stay(read_record(bad)) in (None, *STAYS, f"it holds files that are not a run's: {name}")


STAYS = ("it was written to in the last 10 minutes",)
NUMBERS = [10**400, -(10**400), 1e308, float("nan"), float("inf"), True, "1", None, [1], {"a": 1}, -1, 2**40]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize(
    "name",
    ["start_s", "seconds", "samples_per_s", "loss", "world_size", "ranks", "threads", "outcome", "model", "devices"],
)
def test_whatever_run_json_says_all_runs_are_listed(
    name: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run()
    make_run(BAD, **{"outcome": "finished", "devices": {"0": "CPU"}, "threads": 1, name: value})
    for arguments in (("runs",), ("show", BAD), ("runs", "--prune", "--keep-days", "1")):
        assert main([*arguments]) == 0
    assert GOOD in capsys.readouterr().out
    json.dumps(listing(Choice(), None, 10), allow_nan=False)


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: str(value)[:12])
def test_whatever_the_options_of_a_run_are_it_is_shown(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(BAD, outcome="timed out", options={"timeout_s": value, "auto": value})
    assert main(["show", BAD]) == 0
    assert "RunTimedOut" in capsys.readouterr().out
    make_run(GOOD, outcome="timed out", options=value)
    assert main(["show", GOOD]) == 0


@pytest.mark.parametrize("value", [None, "x", 1, [], {"pid": [1]}, {"boot": 1}, {**this_process(), "pid": 10**400}])
def test_whatever_the_session_of_a_run_is_its_state_is_known(value: object) -> None:
    assert read_record(make_run(BAD, session=value)).state in ("cut off", "unknown")


def test_a_run_goes_on_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(BAD, session=this_process())
    monkeypatch.setattr(time, "time", lambda: 1.0)
    assert read_record(folder).state == "running"


def test_a_run_of_an_earlier_boot_is_cut_off_and_of_another_host_unknown() -> None:
    before = {**process_identity.own(), "boot": "before"}
    assert read_record(make_run(GOOD, session=before)).state == "cut off"
    assert read_record(make_run(BAD, session={**before, "host": "another"})).state == "unknown"


EXAMPLES: list[Any] = [
    rank_life.RankReady(1, 2, 1, "node-a", 4711, "CPU", 8, uses_horovod=True),
    events.RunStarted("r", (0, 2), 4, 1.5),
    events.OutputChunk("r", 0, "stderr", "text", 17),
    events.RichOutput("r", 0, "result", {"text/plain": "1"}, {}, "id"),
    events.OutputCleared("r", 0, wait=True),
    events.MetricsSample("r", 1, 2.0, 99.5, 2**30, n=3, step=7, steps=5, loss=0.5, metrics={"acc": 0.9}),
    events.StragglerMarked("r", 1, 2.0, is_straggler=True, ratio=1.5, spends_on="input"),
    events.RankFinished("r", 0, 2.5, uses_horovod=True, horovod_runs=True),
    events.RankFailed("r", 0, "node-a", "ValueError", "no", ("line", "line"), released=True, at_s=2.0),
    rank_life.RankLost(None, FAULT, 3.0),
    rank_life.RankSilent(1, 10.5, FAULT, 3.0),
    events.CollectiveStalled("r", 0, 3.0, 2.0, ("HorovodAllreduce",), {"1": ["HorovodAllreduce"]}, n=4),
    events.StallReported("r", (0, 1), 3.0, FAULT),
    events.RunFinished("r", "failed", 0.25, FAULT),
]
ODD = [None, True, 10**400, -1.5, "text", "\x1b]0;title\x07", [], [[1]], {"a": {"b": 1}}, [None, "x"]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.type)
def test_events_of_other_types_are_left_out(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(BAD, outcome="finished")
    whole = encode(example)
    odd = [{**whole, name: value} for name in whole if name != "type" for value in ODD]
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in odd))
    for read in run_events(folder):
        assert decode(as_line(read), events.Event) == read
    assert main(["show", BAD]) == 0
    out = capsys.readouterr().out
    assert "\x1b]" not in out
    assert "\x07" not in out
    (folder / "events.jsonl").write_text(json.dumps(whole) + "\n")
    assert list(run_events(folder)) == [example]


def test_a_line_that_is_no_event_is_none() -> None:
    for line in (b"", b"[]", b"1", b'{"type": []}', b'{"type": {}}', b'{"type": "run_finished"}', b"[" * 100_000):
        assert event_of(line) is None


def test_ids_are_names_that_we_give() -> None:
    good_run()
    for name in (
        "2026-11-20T18-03-08-\x1b[31mred\x1b[0m-0001",
        "2026-11-20T18-03-08-a\nb-0001",
        "2026-11-20T18-03-08-ä-0001",
        "x" * 200,
    ):
        make_run(name, outcome="finished")
    assert [record.run for record in newest_first()] == [GOOD]


@pytest.mark.parametrize(
    "run", ["a" * 330, f"2026-11-20T18-03-07-{'a' * 330}-0001", "a\0b", "../x", "", ".", "a" * 100_000, "\ud800"]
)
def test_a_name_that_no_run_can_have_is_no_run(run: str) -> None:
    good_run()
    assert find(run) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "-n", "9" * 20),
        ("runs", "-n", "9" * 400),
        ("logs", "--tail", "9" * 20),
        ("logs", "--tail", "9" * 400),
        ("logs", "--tail", "9" * 20, "--grep", "hello"),
        ("runs", "--prune", "--keep", "9" * 400),
        ("runs", "--prune", "--keep-days", "9" * 400),
        ("runs", "--prune", "--keep-days", "1e300"),
    ],
)
def test_a_number_of_any_size_is_a_number(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    good_run()
    assert main([*arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "hello" in told.out or GOOD in told.out or "1 run stays" in told.out


@pytest.mark.parametrize("text", ["9" * 19, "0-" + "9" * 9, "9" * 5_000])
def test_ranks_of_any_size_are_an_error_of_ours(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    good_run()
    assert main(["logs", "-r", text]) == 1
    assert capsys.readouterr().err.startswith("jupyter ddl: ")


def test_names_of_files_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(BAD, outcome="finished", start_s=1.0)
    (folder / "\x1b]0;title\x07\x1b[2J\nmodel").write_text("mine")
    assert main(["runs", "--prune", "--keep", "0"]) == 0
    out = capsys.readouterr().out
    assert r"stays: it holds files that are not a run's: '\x1b]0;title\x07\x1b[2J\nmodel'" in out
    assert not {"\x1b", "\x07"} & set(out)


def test_ranks_are_named_as_ranks_name_their_files(tmp_path: Path) -> None:
    import re

    for name in ("rank-0.log", "rank-01.log", "rank-+1.log", f"rank-{'9' * 50}.log", "rank-1.log\n", "rank-7.log"):
        (tmp_path / name).write_text("")
    os.mkfifo(tmp_path / "rank-2.log")
    assert list(rank_files(tmp_path, re.compile(r"rank-(0|[1-9][0-9]{0,8})\.log"))) == [0, 7]
    assert read_record(make_run(BAD)).ranks == ()


def test_no_two_runs_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["00000001", *["00000001"] * 5, "00000002", "00000003"])
    monkeypatch.setattr("jupyter_ddl.runs.folder.secrets.token_hex", lambda _: next(drawn))
    monkeypatch.setattr("jupyter_ddl.runs.folder.time.strftime", lambda *_: "2026-11-20T18-03-07")
    first, second = RunFolder("default"), RunFolder("default")
    assert (first.run[-8:], second.run[-8:]) == ("00000001", "00000002")
    assert first.path.is_dir()
    assert second.path.is_dir()


def test_a_thousand_runs_of_a_second_are_a_thousand() -> None:
    assert len({RunFolder("default").run for _ in range(1_000)}) == 1_000


def test_what_a_cell_left_in_place_of_our_files_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text("mine")
    folder = RunFolder("default")
    for name in ("run.json", "cell.py"):
        (folder.path / name).symlink_to(victim)
    folder.write("1 + 1", ranks=[0])
    assert victim.read_text() == "mine"
    assert json.loads((folder.path / "run.json").read_text())["ranks"] == [0]
    (folder.path / "run.json").unlink()
    os.mkfifo(folder.path / "run.json")
    folder.update(outcome="finished")
    assert read_record(folder.path).state == "finished"


# --- other users -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder of runs that all users share, with a run of ours and three of a stranger's."""
    import tempfile
    from pathlib import Path

    needs_root()
    with tempfile.TemporaryDirectory(prefix="ddl-") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        monkeypatch.setenv("JUPYTER_DDL_RUNS", name)
        good_run()

        def strangers() -> None:
            for number, mode in enumerate((0o700, 0o755, 0o000)):
                run = folder / f"2026-11-20T18-03-09-theirs-000{number}"
                run.mkdir()
                (run / "run.json").write_text(json.dumps({"world_id": "w", "ranks": [0], "outcome": None}))
                (run / ".run.json").symlink_to("/etc/passwd")
                run.chmod(mode)

        as_user(STRANGER, strangers)
        yield folder


def test_other_users_runs_are_counted_and_not_read(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert GOOD in out
    assert "theirs" not in out
    assert out.endswith("… and 3 of other users, which are not listed\n")
    assert foreign() == 3
    assert [record.run for record in newest_first()] == [GOOD]
    assert resolve().run == GOOD
    assert list(unfinished("w")) == []
    assert find("2026-11-20T18-03-09-theirs-0001") is None
    assert plan_pruning(keep=0).kept == 0


def test_a_stranger_lists_theirs_and_not_ours(shared: Path) -> None:
    found = as_user(STRANGER, lambda: [[record.run[-11:] for record in newest_first()], foreign()])
    assert found == [["theirs-0002", "theirs-0001", "theirs-0000"], 1]


def test_a_run_in_a_sticky_folder_is_ones_own_and_in_an_open_one_it_is_not_recorded(shared: Path) -> None:
    ours = RunFolder("default")
    assert ours.problem is None
    assert ours.path.stat().st_mode & 0o777 == 0o700
    shared.chmod(0o777)
    refused = RunFolder("default")
    assert refused.log_dir is None
    assert refused.problem is not None
    assert "every user can write to" in refused.problem
    assert "JUPYTER_DDL_RUNS" in refused.problem
    assert not refused.path.exists()
