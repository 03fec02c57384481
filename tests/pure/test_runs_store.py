"""Runs found on disk: in order, by what the user wrote, and whatever is missing of them."""

import os
import socket
import subprocess
import sys
import time

import psutil
import pytest
from run_folders import HERE, make_run, own_session

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.store import find, newest_first, read_record, resolve

RULE = "A run is named by its id, by a beginning or an end of it, or by its name, that no other run has. Received: "


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DDL_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def names():
    return [record.run for record in newest_first()]


def refused(text):
    with pytest.raises(InvalidInput) as raised:
        resolve(text)
    return str(raised.value)


def test_no_run_yet(runs):
    rule = f"A run must have been recorded. Received: none in {runs}. Run a cell with %%distributed, or set"
    assert names() == []
    assert refused(None) == f"{rule} JUPYTER_DDL_RUNS to the folder that has them."
    assert refused("3f9c").startswith(rule)


def test_the_newest_comes_first_also_within_a_second():
    make_run("2026-11-20T18-03-07-b-0002", start_s=1000.7)
    make_run("2026-11-20T18-03-07-z-0001", start_s=1000.2)
    make_run("2026-11-20T18-03-08-a-0000", start_s=1001.0)
    make_run("2025-12-31T23-59-59-z-ffff")
    assert [name[20:] for name in names()] == ["a-0000", "b-0002", "z-0001", "z-ffff"]
    assert resolve().run == "2026-11-20T18-03-08-a-0000"


def test_the_order_within_a_second_does_not_change_when_runs_are_described(runs):
    first = make_run("2026-11-20T18-03-07-default-ffff", start_s=at_s("18-03-07") + 0.2)
    new = runs / "2026-11-20T18-03-07-default-0000"
    new.mkdir()
    os.utime(new, (at_s("18-03-07") + 0.6,) * 2)
    assert names() == [new.name, first.name]
    new.rmdir()
    make_run(new.name, start_s=at_s("18-03-07") + 0.59)
    assert names() == [new.name, first.name]
    # Of one time: by their names, whatever order the disk has them in.
    make_run("2026-11-20T18-03-07-default-8888", start_s=at_s("18-03-07") + 0.59)
    assert [name[-4:] for name in names()] == ["8888", "0000", "ffff"]


def test_a_name_has_the_second_in_which_its_run_began(monkeypatch):
    times = [at_s("18-03-07") + 0.999]
    # The clock moves on between any two looks at it.
    monkeypatch.setattr(time, "time", lambda: times.append(times[-1] + 0.01) or times[-2])
    folder = RunFolder("default")
    assert folder.run.startswith("2026-11-20T18-03-07-default-")
    assert folder.start_s == times[0]


def at_s(clock):
    """Return a time of 2026-11-20, in seconds since the epoch."""
    return time.mktime(time.strptime(f"2026-11-20T{clock}", "%Y-%m-%dT%H-%M-%S"))


def test_a_listing_goes_on_after_a_run_also_after_one_that_is_gone():
    make_run("2026-11-20T18-03-07-b-0002", start_s=1000.7)
    make_run("2026-11-20T18-03-07-z-0001", start_s=1000.2)
    make_run("2026-11-20T18-03-08-a-0000", start_s=1001.0)
    make_run("2025-12-31T23-59-59-z-ffff")
    after = {run: [record.run[-4:] for record in newest_first(run)] for run in [*names(), "2026-11-20T18-03-07-b-0009"]}
    assert list(after.values()) == [["0002", "0001", "ffff"], ["0001", "ffff"], ["ffff"], [], ["0002", "0001", "ffff"]]


def test_a_run_is_found_by_exactly_its_id(runs, tmp_path):
    folder = make_run("2026-11-20T18-03-07-default-3f9c", model="m")
    assert find(folder.name) == read_record(folder)
    elsewhere = tmp_path / "2026-11-20T18-03-09-default-0000"
    elsewhere.mkdir()
    (runs / elsewhere.name).symlink_to(elsewhere)
    (runs / "2026-11-20T18-03-07-a").mkdir()
    for name in (
        "",
        ".",
        "..",
        "3f9c",
        f"{folder.name}/",
        f"{folder.name}/../{folder.name}",
        f"2026-11-20T18-03-07-a/../{folder.name}",
        f"2026-11-20T18-03-07-/../{folder.name}",
        f"{folder.name}\0",
        str(folder),
        elsewhere.name,
        f"../{elsewhere.name}",
        "2026-11-20T18-03-07-default-0000",
    ):
        assert find(name) is None


def test_only_folders_of_runs_are_runs(runs, tmp_path):
    make_run()
    (runs / "notes").mkdir()
    (runs / "2026-11-20T18-03-09-file-0000").write_text("a file")
    elsewhere = tmp_path / "2026-11-20T18-03-09-link-0000"
    elsewhere.mkdir()
    (runs / elsewhere.name).symlink_to(elsewhere)
    assert names() == ["2026-11-20T18-03-07-default-3f9c"]
    assert refused(elsewhere.name).startswith(RULE)


def test_a_run_by_its_id_a_part_of_it_and_its_folder(runs):
    first, second = make_run("2026-11-20T18-03-07-default-3f9c"), make_run("2026-11-21T09-00-00-big-3f9d")
    assert resolve(first.name).path == first
    assert resolve("3f9d").path == second
    assert resolve("big-3f9d").path == second
    assert resolve("2026-11-20").path == first
    assert resolve(str(first)).path == first
    assert refused("2026") == f"{RULE}'2026', which may be {second.name}, {first.name}. Write more of it."
    assert refused("big") == f"{RULE}'big', which is no run. %ddl runs lists them, and so does jupyter ddl runs."


def test_an_id_that_begins_another_is_that_run():
    make_run("2026-11-20T18-03-07-a-3f9c")
    make_run("2026-11-20T18-03-07-a-3f9c-3f9c")
    assert resolve("2026-11-20T18-03-07-a-3f9c").run == "2026-11-20T18-03-07-a-3f9c"


def test_many_that_may_be_meant_are_bounded():
    for second in range(20):
        make_run(f"2026-11-20T18-03-{second:02}-a-{second:04x}")
    assert refused("2026").endswith("-a-0010 and 16 more. Write more of it.")


@pytest.mark.parametrize("text", ["", "..", "../runs", "/etc", "../../secret-0000", "a/b", "\x00", "*", "%s"])
def test_no_text_leads_out_of_the_folder(runs, text):
    make_run()
    secret = runs.parent / "2026-11-20T18-03-07-secret-0000"
    secret.mkdir()
    assert refused(text).startswith(f"{RULE}{text!r}, which is no run.")
    assert refused(f"../{secret.name}").startswith(RULE)
    assert refused(str(runs / ".." / secret.name)).startswith(RULE)


def test_all_that_run_json_says():
    folder = make_run(
        outcome="finished", seconds=12.5, samples_per_s=1234.5, loss=0.25, model="Sequential", options={"auto": {}}
    )
    record = read_record(folder)
    assert (record.run, record.ranks, record.world_size, record.state) == (folder.name, (0, 1), 2, "finished")
    assert (record.seconds, record.samples_per_s, record.loss) == (12.5, 1234.5, 0.25)
    assert (record.model, record.options) == ("Sequential", {"auto": {}})


BROKEN = [
    b"",
    b'{"run": "2026',
    b"[]",
    b"null",
    b"\xff",
    b'{"ranks": "all", "outcome": 3, "start_s": "x", "seconds": NaN, "options": 1}',
]


@pytest.mark.parametrize("content", [None, *BROKEN])
def test_a_run_without_a_whole_run_json_is_known_by_its_files(content):
    folder = make_run()
    if content is not None:
        (folder / "run.json").write_bytes(content)
    for rank in (0, 3):
        (folder / f"rank-{rank}.log").write_text("hello")
    (folder / "rank-x.log").write_text("no rank")
    record = read_record(folder)
    assert (record.ranks, record.world_size, record.state, record.seconds) == ((0, 3), 4, "cut off", None)
    assert time.localtime(record.start_s)[:6] == (2026, 11, 20, 18, 3, 7)


def test_a_loss_that_is_no_number_is_one():
    assert str(read_record(make_run(loss=float("nan"))).loss) == "nan"


def test_a_run_without_outcome_runs_while_its_kernel_lives():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        session = {**HERE, "pid": child.pid, "started_s": psutil.Process(child.pid).create_time()}
        folder = make_run(session=session)
        assert read_record(folder).state == "running"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert read_record(folder).state == "cut off"  # a zombie
        child.wait()
        assert read_record(folder).state == "cut off"


@pytest.mark.parametrize(
    ("session", "state"),
    [
        ({**HERE, "started_s": 1000.0}, "cut off"),  # the number is another process's by now
        ({**HERE, "pid": "x"}, "cut off"),
        ({**HERE, "pid": -5, "started_s": 1.0}, "cut off"),
        ({**HERE, "pid": 10**30, "started_s": 1.0}, "cut off"),
        ({"host": socket.gethostname()}, "cut off"),
        ({"pid": 1, "host": "another-host", "started_s": 1.0}, "unknown"),
        ("text", "cut off"),
    ],
)
def test_a_run_without_outcome_whose_kernel_is_gone(session, state):
    assert read_record(make_run(session=session)).state == state


def test_an_outcome_counts_more_than_a_kernel_that_lives():
    assert read_record(make_run(session=own_session())).state == "running"
    assert (
        read_record(make_run("2026-11-20T18-03-08-a-0000", session=own_session(), outcome="failed")).state == "failed"
    )


@pytest.mark.timeout(30)
def test_listing_the_newest_of_thousands_reads_only_these(runs):
    for index in range(3_000):
        (runs / f"2026-11-20T{index // 3600:02}-{index // 60 % 60:02}-{index % 60:02}-a-{index:04x}").mkdir(
            parents=True
        )
    # Whoever reads it waits for ever.
    for index in range(10):
        os.mkfifo(runs / f"2026-11-20T00-00-{index:02}-a-{index:04x}" / "run.json")
    found = newest_first()
    newest = [next(found).run for _ in range(20)]
    assert newest[0] == f"2026-11-20T00-49-59-a-{2_999:04x}"
    assert newest == sorted(newest, reverse=True)
    assert resolve().run == newest[0]
    assert resolve(f"a-{1_000:04x}").run == f"2026-11-20T00-16-40-a-{1_000:04x}"


def test_a_run_that_has_just_begun_is_running_though_nothing_says_so_yet(runs):
    new = time.strftime("%Y-%m-%dT%H-%M-%S") + "-default-0a1b"
    for name in (new, "2026-01-02T03-04-05-default-0a1b"):
        (runs / name).mkdir(parents=True)
    assert [read_record(runs / name).state for name in (new, "2026-01-02T03-04-05-default-0a1b")] == [
        "running",
        "cut off",
    ]
