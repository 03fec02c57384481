"""`jupyter ddl runs` and `show` on folders of runs, and the same magics: what is listed, deleted and shown again."""

import json
import os
import re
import time

import pytest
from IPython.core.interactiveshell import InteractiveShell
from run_folders import make_run, own_session, write_events

from jupyter_ddl.cli import main
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.magics.ddl import DdlMagics
from jupyter_ddl.protocol.events import OutputChunk, RankFailed, RankFinished, RichOutput, RunFinished, RunStarted
from jupyter_ddl.protocol.faults import loss_in_words
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.prune import plan_pruning
from jupyter_ddl.views.replay import Outputs

OLD_S = time.time() - 10 * 86_400
STARTED = RunStarted("r", (0, 1), 2, 100.0)


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def magics(monkeypatch):
    # Not installed as the process's shell: output goes to the terminal's view.
    return DdlMagics(InteractiveShell())


def printed(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments):
    assert main([*arguments]) == 1
    return capsys.readouterr().err


def old_run(number, **content):
    """Make a run of ten days ago, the earlier the higher its number."""
    content = {"outcome": "finished", "start_s": OLD_S - number, "seconds": 1.0, **content}
    return make_run(f"2026-11-10T18-03-{59 - number:02}-old-{number:04x}", **content)


def left(runs):
    return sorted(path.name[-4:] for path in runs.iterdir())


def test_no_runs(capsys):
    assert printed(capsys, "runs") == "No runs yet.\n"
    assert "A run must have been recorded." in refused(capsys, "show")
    assert "A run must have been recorded." in refused(capsys, "logs")


def test_the_table(capsys):
    now_s = time.time()
    trained = {"outcome": "finished", "seconds": 187.2, "samples_per_s": 12345.6, "loss": 0.123456}
    make_run("2026-11-20T18-03-07-default-3f9c", start_s=now_s - 7_300, **trained)
    make_run("2026-11-20T18-03-08-default-0001", start_s=now_s - 200, ranks=[1], session=own_session())
    make_run("2026-11-20T18-03-09-default-0002", start_s=now_s - 5, session={"host": "elsewhere"}, loss=float("nan"))
    assert printed(capsys, "runs") == (
        "run                               when       ranks   outcome         took  samples/s    loss\n"
        "2026-11-20T18-03-09-default-0002  just now   0-1     unknown                             nan\n"
        "2026-11-20T18-03-08-default-0001  3 min ago  1 of 2  running   3 min 20 s\n"
        "2026-11-20T18-03-07-default-3f9c  2 h ago    0-1     finished   3 min 7 s     12,346  0.1235\n"
    )


def test_only_the_newest_are_listed(capsys, magics):
    for number in range(5):
        old_run(number)
    text = printed(capsys, "runs", "-n", "2")
    assert [line[20:28] for line in text.splitlines()[1:3]] == ["old-0000", "old-0001"]
    assert text.endswith("… and older ones: -n 20 lists more\n")
    assert "older" not in printed(capsys, "runs", "-n", "5")
    magics.ddl("runs")
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert "-n takes a number of at least 1. Received: -n 0. Pass how many" in refused(capsys, "runs", "-n", "0")


def test_pruning_says_what_it_would_delete_and_deletes_nothing(capsys, runs):
    for number in range(4):
        (old_run(number) / "rank-0.log").write_bytes(b"x" * 100_000)
    text = printed(capsys, "runs", "--prune", "--keep", "1")
    assert text.startswith("Would delete 3 runs (")
    assert " kB), and keep 1:\n" in text
    assert [line[20:28] for line in text.splitlines()[2:5]] == ["old-0001", "old-0002", "old-0003"]
    assert text.endswith("Nothing is deleted yet: add --yes.\n")
    assert left(runs) == ["0000", "0001", "0002", "0003"]


def test_pruning_keeps_the_newest(capsys, runs, magics):
    for number in range(4):
        old_run(number)
    assert "Deleting 2 runs (" in printed(capsys, "runs", "--prune", "--keep", "2", "--yes")
    assert left(runs) == ["0000", "0001"]
    magics.ddl("runs --prune --keep 1 --yes")
    assert "Deleting 1 run (" in capsys.readouterr().out
    assert left(runs) == ["0000"]
    assert printed(capsys, "runs", "--prune", "--keep", "9", "--yes") == "Nothing to delete: 1 run stays.\n"


def test_pruning_keeps_the_last_days(capsys, runs):
    for number in range(2):
        old_run(number)
    make_run("2026-11-20T18-03-07-new-aaaa", outcome="failed", start_s=time.time() - 86_400)
    printed(capsys, "runs", "--prune", "--keep-days", "1.5", "--yes")
    assert left(runs) == ["aaaa"]
    printed(capsys, "runs", "--prune", "--keep-days", "0.5", "--yes")
    assert left(runs) == []


def test_pruning_goes_by_when_a_run_began_and_not_by_its_name(capsys, runs):
    """Names are local times: an hour comes twice a year, and machines have zones."""
    make_run("2026-11-20T18-03-07-a-aaaa", outcome="failed", start_s=2000.0)
    make_run("2026-11-20T19-03-07-b-bbbb", outcome="failed", start_s=1000.0)
    printed(capsys, "runs", "--prune", "--keep", "1", "--yes")
    assert left(runs) == ["aaaa"]


def test_what_runs_or_may_run_stays(capsys, runs):
    old_run(1, outcome=None, session=own_session())
    old_run(2, outcome=None, session={"host": "elsewhere", "pid": 1, "started_s": 1.0})
    old_run(3, outcome=None)  # cut off, but its ranks may be at it still
    silent = old_run(4, outcome=None)
    for path in (*silent.iterdir(), silent):
        os.utime(path, (OLD_S, OLD_S))
    text = printed(capsys, "runs", "--prune", "--keep", "0", "--yes")
    assert left(runs) == ["0001", "0002", "0003"]
    stays = [
        "-0001 stays: it is running",
        "-0002 stays: the kernel that records it is on another host: prune it there",
        "-0003 stays: it was written to in the last 10 minutes",
    ]
    assert [line[len("2026-11-10T18-03-58-old") :] for line in text.splitlines()[:3]] == stays
    assert "Deleting 1 run (" in text
    assert ", and keep 3:" in text


def test_what_is_no_run_is_never_deleted(capsys, runs, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data.bin").write_text("data")
    (precious / "run.json").write_text(json.dumps({"outcome": "finished"}))
    runs.mkdir()
    (runs / "my-notes").mkdir()
    (runs / "file.txt").write_text("text")
    (runs / "2026-11-10T18-03-07-link-0000").symlink_to(precious)
    foreign, linked, nested = old_run(1), old_run(2), old_run(3)
    (foreign / "model.keras").write_text("weights")
    (foreign / "notes.txt").write_text("text")
    (linked / "rank-0.log").symlink_to(precious / "data.bin")
    (nested / "rank-0.events.jsonl").mkdir()
    complete = old_run(4)
    ranks_files = ("rank-0.log", "rank-0.stderr.jsonl", "rank-12.events.jsonl", "rank-0.ended")
    for name in ("events.jsonl", *ranks_files, ".run.json", ".cell.py"):
        (complete / name).write_text("")
    text = printed(capsys, "runs", "--prune", "--keep", "0", "--yes")
    assert f"{foreign.name} stays: it holds files that are not a run's: model.keras and 1 more\n" in text
    assert f"{linked.name} stays: it holds files that are not a run's: rank-0.log\n" in text
    assert f"{nested.name} stays: it holds files that are not a run's: rank-0.events.jsonl\n" in text
    assert left(runs) == sorted([".txt", "0000", "0001", "0002", "0003", "otes"])
    assert (precious / "data.bin").read_text() == "data"


def test_what_pruning_refuses(capsys, magics):
    neither = "Pruning needs to know what to keep. Received: neither. Pass --keep N or --keep-days D."
    assert neither in refused(capsys, "runs", "--prune")
    assert "Received: both." in refused(capsys, "runs", "--prune", "--keep", "1", "--keep-days", "1")
    assert "--keep takes a number of at least 0. Received: --keep -1." in refused(
        capsys, "runs", "--prune", "--keep", "-1"
    )
    days = "--keep-days takes a number of at least 0. Received: --keep-days nan."
    assert days in refused(capsys, "runs", "--prune", "--keep-days", "nan")
    unused = "--keep says how to prune. Received: --keep without --prune. Add --prune."
    assert unused in refused(capsys, "runs", "--keep", "1")
    assert "--yes without --prune" in refused(capsys, "runs", "--yes")
    with pytest.raises(InvalidInput, match=r"^Pruning needs to know what to keep\. Received: neither\."):
        magics.ddl("runs --prune")


def test_a_run_that_became_a_link_is_not_followed(capsys, runs, tmp_path, monkeypatch):
    """Between the listing and the deletion."""
    target = tmp_path / "target"
    old_run(1)
    doomed = plan_pruning(keep=0)
    doomed.doomed[0].path.rename(target)
    doomed.doomed[0].path.symlink_to(target)
    monkeypatch.setattr("jupyter_ddl.commands.runs.plan_pruning", lambda **_: doomed)
    told = refused(capsys, "runs", "--prune", "--keep", "0", "--yes")
    assert "A run's folder must be deletable. Received: " in told
    assert "Delete it by hand, or have its owner do it." in told
    assert (target / "cell.py").exists()


def test_many_doomed_runs_are_counted(capsys):
    for number in range(150):
        make_run(f"2026-11-10T18-{number // 60:02}-{number % 60:02}-a-{number:04x}", outcome="finished", start_s=OLD_S)
    text = printed(capsys, "runs", "--prune", "--keep", "0")
    assert "Would delete 150 runs (" in text
    assert "… and 50 older ones\n" in text


def out(rank, text, stream="stdout"):
    return OutputChunk("r", rank, stream, text)


def failed(rank, name="ValueError", *, released=False, traceback=()):
    return RankFailed("r", rank, "host-a", name, f"no {rank}", traceback, released, 100.0 + rank)


def test_a_run_is_shown_as_it_was(capsys):
    folder = make_run(
        "2026-11-20T18-03-07-default-3f9c", outcome="finished", seconds=3.0, samples_per_s=1500.0, loss=0.5
    )
    events = [STARTED, out(0, "same\nzero\n"), out(1, "same\none\n"), out(0, "err\n", "stderr")]
    table = RichOutput("r", 0, "display", {"text/html": "<b>x</b>", "text/plain": "x"})
    write_events(folder, [*events, table, RankFinished("r", 0, 1.0), RunFinished("r", "finished", 3.0)])
    assert main(["show", "3f9c"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == f"{folder.name}: ranks 0-1; finished after 3 s; 1,500 samples/s; loss 0.5"
    assert lines[1] == "[0-1] same"
    assert sorted(lines[2:]) == ["[0]   x", "[0]   zero", "[1]   one"]
    assert shown.err == "[0]   err\n"


def test_a_failure_is_told_again(capsys):
    folder = make_run(outcome="failed", seconds=0.5)
    traceback = ("\x1b[31mTraceback\x1b[0m", "ValueError: no 1")
    write_events(folder, [STARTED, failed(0, "HorovodInternalError", released=True), failed(1, traceback=traceback)])
    text = printed(capsys, "show")
    told = "Rank 1 of 2 on host-a\nTraceback\nValueError: no 1\n\nRank 0 aborted because rank 1 raised\n"
    assert text == f"{folder.name}: ranks 0-1; failed after 0.5 s\n{told}"


def test_a_failure_in_a_notebook_keeps_its_colours(capsys, magics):
    traceback = ("\x1b[31mTraceback\x1b[0m", "ValueError: \x1b[2J\x1b]0;title\x07\x9b31mfalse")
    write_events(make_run(outcome="failed"), [failed(1, traceback=traceback)])
    magics.ddl("show")
    text = capsys.readouterr().out
    assert "\x1b[31mTraceback\x1b[0m\nValueError: [2J]0;title31mfalse\n" in text


def test_what_a_file_says_of_a_run_is_only_text(capsys):
    make_run(outcome="\x1b[2Jfine\nor not", model="\x1b]0;title\x07<b>\r\n")
    for text in (printed(capsys, "runs"), printed(capsys, "show")):
        assert "fine or not" in text
        assert not {"\x1b", "\x07", "\r"} & set(text)


@pytest.mark.parametrize(
    ("content", "events", "told"),
    [
        (
            {"outcome": "interrupted", "seconds": 2.0},
            [failed(0)],
            "RunInterrupted: The cell was interrupted after 2 s",
        ),
        (
            {"outcome": "timed out", "seconds": 2.0, "options": {"timeout_s": 2}},
            [failed(0, released=True)],
            "RunTimedOut: The cell must end within its timeout. Received: --timeout 2, and ranks still at it.",
        ),
        (
            {"outcome": "timed out"},
            [],
            "RunTimedOut: The cell must end within its timeout. Received: ranks still at it.",
        ),
        (
            {"outcome": "lost", "seconds": 2.0},
            [RankLost(1, loss_in_words("rank 1 was killed by SIGKILL"), 1.0)],
            "ClusterLost: Ranks must live to the end of the cell. Received: rank 1 was killed by SIGKILL",
        ),
        ({"loss": 1.0}, [out(0, "begun")], "The kernel that ran it ended before it did."),
    ],
)
def test_other_ends_are_told_too(capsys, content, events, told):
    write_events(make_run(**content), [STARTED, *events])
    *_, last = (line for line in printed(capsys, "show").splitlines() if not line.startswith("Logs: "))
    assert last.startswith(told)


def test_a_run_with_nothing_in_its_folder_can_be_shown(capsys, runs):
    (runs / "2026-11-20T18-03-07-a-0000").mkdir(parents=True)
    assert printed(capsys, "show", "a-0000") == (
        "2026-11-20T18-03-07-a-0000: no ranks; cut off\nThe kernel that ran it ended before it did.\n"
    )


def test_a_cell_for_one_process_shows_as_its_first_rank_printed_it(capsys):
    folder = make_run(outcome="finished", options={"auto": {"batch": "global"}})
    write_events(folder, [STARTED, out(0, "Epoch 1\n"), out(1, "epoch one\n")])
    assert printed(capsys, "show").splitlines()[1:] == ["[0]   Epoch 1"]


def test_regular_expressions_keep_their_backslashes(capsys, magics):
    folder = make_run(outcome="finished", ranks=[0], world_size=1)
    (folder / "rank-0.log").write_text("loss=12\nloss=d\na b\n")
    for line, expected in {
        r"logs --grep loss=\d+": "[0] loss=12\n",
        r"logs --grep 'loss=\d+'": "[0] loss=12\n",
        r'logs --grep "a\sb"': "[0] a b\n",
        r"logs -r 0 --tail 1": "[0] a b\n",
    }.items():
        magics.ddl(line)
        assert capsys.readouterr().out == expected


def test_a_notebook_gets_the_end_of_long_logs_and_how_much_stands_before(capsys, magics, monkeypatch):
    folder = make_run(outcome="finished")
    for rank in (0, 1):
        (folder / f"rank-{rank}.log").write_text("".join(f"line {line}\n" for line in range(6_000)))
    magics.ddl("logs")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 5_001
    assert lines[:2] == ["[0] … 1,000 earlier lines: add --tail 6000", "[0] line 1000"]
    assert lines[-1] == "[1] line 5999"
    magics.ddl("logs --tail 6000")
    assert len(capsys.readouterr().out.splitlines()) == 12_000
    magics.ddl("logs --grep line")
    assert capsys.readouterr().out.splitlines()[0] == "[0] … 1,000 earlier lines: add --tail 6000"
    assert len(printed(capsys, "logs").splitlines()) == 12_000


def test_a_notebook_gets_no_more_characters_than_its_server_passes_on(capsys, magics):
    folder = make_run(outcome="finished")
    for rank in (0, 1):
        (folder / f"rank-{rank}.log").write_text("".join(f"{line} {'x' * 3_000}\n" for line in range(1_000)))
    magics.ddl("logs")
    text = capsys.readouterr().out
    assert 900_000 < len(text) < 1_100_000
    first = text.splitlines()[0]
    before = int(re.fullmatch(r"\[0\] … (\d+) earlier lines: add --tail 1000", first)[1])
    assert text.splitlines()[1].startswith(f"[0] {before} xxx")
    (folder / "rank-1.log").write_text(f"a\n{'x' * 2_000_000}\n")
    magics.ddl("logs -r 1")
    assert capsys.readouterr().out == f"[1] a\n[1] {'x' * 2_000}… (+1,998,000 characters)\n"


def test_a_run_of_which_only_logs_are_there_says_where_its_output_is(capsys, magics):
    folder = make_run(outcome="finished")
    (folder / "rank-0.log").write_text("text\n")
    assert printed(capsys, "show").splitlines()[1:] == [
        f"Only the logs of its output exist: jupyter ddl logs {folder.name}"
    ]
    magics.ddl("show")
    assert f"Only the logs of its output exist: %ddl logs {folder.name}" in capsys.readouterr().out


class Notebook:
    def __init__(self):
        self.shown = []

    def publish(self, data, metadata, display_id):
        self.shown.append((display_id, data))


def test_a_replay_publishes_the_end_once_under_names_of_its_own():
    outputs, notebook = Outputs(), Notebook()
    outputs.publish({"text/plain": "a"}, {}, "ddl-1")
    outputs.publish({"image/png": "x"}, {}, "ddl-0-figure")
    outputs.update({"text/plain": "b"}, {}, "ddl-1")
    outputs.publish({"text/plain": ""}, {}, "ddl-2")
    outputs.update({"text/plain": "of an earlier cell"}, {}, "ddl-0-other")
    outputs.publish_all(notebook)
    names, data = zip(*notebook.shown, strict=True)
    assert data == ({"text/plain": "b"}, {"image/png": "x"})
    assert not set(names) & {"ddl-1", "ddl-0-figure"}
