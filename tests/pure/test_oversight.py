"""Who looks after others sees each cluster, when it was used last and its last fault; only idle ones are ended."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.cluster import lease_process
from jupyter_ddl.cluster.ending_notes import ending_on_request, log_file
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.cluster.use_lock import UseLock, is_used, kept_from_use, last_use_s
from jupyter_ddl.host import process_identity
from jupyter_ddl.oversight import clusters, stopping
from jupyter_ddl.oversight.table import clusters_table, loss_text
from jupyter_ddl.protocol.cluster_summaries import ClusterSummary, StopRequest
from jupyter_ddl.protocol.events import RankFinished, RunFinished
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.runs.folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPEC = ClusterSpec("a", 2, ("0", "1"), 1, {}, keep=False, oversubscribe=False, note="")
SECRET = "print('the user's own code')"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterFolder:
    """Make the folder of a cluster whose lease is this process, and which was used an hour ago."""
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv("JUPYTERHUB_USER", "alice")
    # The lease, which is this process, is as old as the tests.
    monkeypatch.setattr(clusters, "_start_s", lambda _: time.time() - 7200)
    made = ClusterFolder("a")
    made.create(SPEC, {"kernel_pid": 4711, "world_id": "w1"})
    made.write_lease()
    made.connection_file.write_text("{}")
    set_last_use(made, 3600)
    return made


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the leases that are ended, in place of ending this process."""
    found: list[int] = []
    monkeypatch.setattr(lease_process, "terminate", lambda lease: found.append(lease.pid))
    return found


def set_last_use(folder: ClusterFolder, before_s: float) -> None:
    at_s = time.time() - before_s
    os.utime(folder.path / "use.lock", (at_s, at_s))


def a_run(ago_s: float, world: str = "w1", *, session: Any = None, **end: Any) -> RunFolder:
    """Record a run that began some time ago; without `end` one that has not ended."""
    run = RunFolder("a")
    run.start_s = time.time() - ago_s
    run.write(SECRET, world_id=world, ranks=[0, 1], world_size=2, session=session)
    if end:
        run.end(RunFinished(run.run, end.pop("outcome", "finished"), end.pop("seconds", 1.0), **end), {})
    return run


def the_one() -> ClusterSummary:
    (only,) = clusters.found()
    return only[1]


def test_a_cluster_that_no_run_used_is_idle_since_its_start(folder: ClusterFolder) -> None:
    set_last_use(folder, 9000)
    found = the_one()
    assert found.idle_s == pytest.approx(7200, abs=5)
    assert (found.user, found.name, found.world_size, found.devices, found.state) == (
        "alice",
        "a",
        2,
        ("0", "1"),
        "idle",
    )
    assert found.hosts == (process_identity.here()["host"],)
    assert found.id == f"{folder.path.parent.name}/a"


@pytest.mark.parametrize(
    ("make", "state", "idle_s"),
    [
        (lambda: a_run(1800, seconds=600.0), "idle", 1200),
        (lambda: a_run(1800, world="another", seconds=600.0), "idle", 3600),
        (lambda: a_run(1800, session=process_identity.own()), "running", None),
    ],
    ids=["ended", "of other ranks", "active"],
)
def test_runs_say_when_the_ranks_were_used_last(
    folder: ClusterFolder, make: Callable[[], RunFolder], state: str, idle_s: float | None
) -> None:
    make()
    found = the_one()
    assert found.state == state
    assert found.idle_s == (None if idle_s is None else pytest.approx(idle_s, abs=5))


def test_ranks_whose_kernel_is_gone_run_until_each_has_ended(folder: ClusterFolder) -> None:
    run = a_run(1800)
    with (run.path / "events.jsonl").open("w") as events:
        for rank, state in ((0, "running"), (1, "idle")):
            ended = RankFinished(run.run, rank, time.time())
            assert the_one().state == "running"
            events.write(json.dumps({"type": ended.type, **asdict(ended)}) + "\n")
            events.flush()
            assert the_one().state == state


def test_the_last_fault_is_its_kind_and_time_and_no_text(folder: ClusterFolder) -> None:
    a_run(3000, outcome="failed", fault=Fault("raised", at_s=1000.0, facts=Facts(error="E", message=SECRET)))
    failed = a_run(2000, outcome="failed", fault=Fault("stalled", at_s=2000.0, facts=Facts(note=SECRET)))
    a_run(1000, outcome="interrupted", fault=Fault("interrupted", "user", at_s=3000.0))
    a_run(500)
    (failed.path / "rank-0.log").write_text(SECRET)
    found = the_one()
    assert (found.fault_kind, found.fault_at_s) == ("stalled", 2000.0)
    assert "own code" not in json.dumps(asdict(found))
    assert "own code" not in clusters_table([found])


def test_a_cluster_whose_ranks_still_start_is_not_idle(folder: ClusterFolder) -> None:
    folder.connection_file.unlink()
    assert (the_one().state, the_one().idle_s) == ("starting", None)


def test_a_kernel_that_uses_ranks_holds_the_lock(folder: ClusterFolder, ended: list[int]) -> None:
    use = UseLock(folder.path)
    use.hold()
    use.hold()
    use.free()
    assert is_used(folder.path)
    assert the_one().state == "running"
    assert stop(0) == {the_one().id: "used"}
    use.free()
    assert not is_used(folder.path)
    assert last_use_s(folder.path) == pytest.approx(time.time(), abs=5)
    assert ended == []
    use.free()
    use.hold()
    assert is_used(folder.path)
    use.close()
    assert not is_used(folder.path)


def test_a_run_that_begins_while_ranks_are_ended_waits(folder: ClusterFolder) -> None:
    use, begun = UseLock(folder.path), threading.Event()
    thread = threading.Thread(target=lambda: (use.hold(), begun.set()))
    with kept_from_use(folder.path) as is_free:
        assert is_free
        thread.start()
        assert not begun.wait(0.2)
    assert begun.wait(30)
    thread.join()
    with kept_from_use(folder.path) as is_free:
        assert not is_free
    use.close()


def stop(idle_s: float) -> dict[str, str]:
    return dict(stopping.stop_idle(StopRequest((the_one().id,), idle_s), "mrs smith\x1b"))


def test_an_idle_cluster_is_ended_and_its_user_finds_by_whom(folder: ClusterFolder, ended: list[int]) -> None:
    assert list(stop(1800).values()) == ["stopped"]
    assert ended == [os.getpid()]
    ending = ending_on_request(folder.path)
    assert (ending.kind, ending.subject, ending.facts.by) == ("stopped", "idle", "mrs smith\x1b")
    assert ending.facts.seconds == pytest.approx(3600, abs=5)
    line = log_file().read_text()
    assert line.count("\n") == 1
    host = process_identity.here()["host"]
    assert f"a of alice (2 ranks on {host}) was stopped by mrs smith?, after 1 h 00 min without a run" in line
    assert log_file().stat().st_mode & 0o077 == 0


def test_one_that_was_used_since_the_question_is_left(folder: ClusterFolder, ended: list[int]) -> None:
    asked = the_one()
    assert stopping.is_idle_for(asked, 1800)
    a_run(60, seconds=1.0)
    assert stopping.stop_idle(StopRequest((asked.id, "../etc", "b"), 1800), "x") == {
        asked.id: "used",
        "../etc": "gone",
        "b": "gone",
    }
    assert ended == []
    assert ending_on_request(folder.path).subject == "user"
    assert not log_file().exists()


def test_a_note_of_a_process_that_was_killed_before_it_ended_the_ranks_is_too_old(folder: ClusterFolder) -> None:
    note = {"by": "x", "idle_s": 1.0, "at_s": time.time() - 200}
    (folder.path / "ended_as_idle.json").write_text(json.dumps(note))
    assert ending_on_request(folder.path).subject == "user"
    for broken in ({"by": "x"}, {**note, "at_s": "now"}, {**note, "idle_s": None}):
        (folder.path / "ended_as_idle.json").write_text(json.dumps(broken))
        assert ending_on_request(folder.path).subject == "user"


def test_the_table_has_a_line_a_cluster() -> None:
    one = ClusterSummary("h/a", "alice", "a", 2, ("0", "1"), False, ("n1",), None, 1.8e9, "idle", 5400.0, "lost", 1.8e9)
    two = replace(one, id="h/b", name="b\x1b", devices=(), hosts=tuple("wxyz"), job="12", state="running", idle_s=None)
    table = clusters_table([one, replace(two, is_on_cores=True, fault_kind=None)], 1.8e9 + 7200).splitlines()
    assert [line.split() for line in table] == [
        ["user", "cluster", "ranks", "devices", "hosts", "since", "idle", "for", "last", "fault"],
        [
            "alice",
            "a",
            "2",
            "GPU",
            "0,1",
            "n1",
            *since(1.8e9),
            "1",
            "h",
            "30",
            "min",
            "lost,",
            "2",
            "h",
            "00",
            "min",
            "ago",
        ],
        ["alice", "b?", "(job", "12)", "2", "cores", "w,x,y", "and", "1", "more", *since(1.8e9), "running", "-"],
    ]
    assert clusters_table([]) == "No cluster runs."


def test_what_becomes_of_the_variables_is_said_as_it_is(
    folder: ClusterFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = the_one()
    assert not lost.keeps_variables
    for spec, pid in ((replace(SPEC, keep_variables=True), os.getppid()), (SPEC, 4711)):
        monkeypatch.setattr(ClusterFolder, "spec", lambda _, spec=spec: spec)
        monkeypatch.setattr(ClusterFolder, "is_orphan", lambda _, pid=pid: pid == 4711)
        assert main(["clusters", "--stop-idle", "30m"]) == 1
        told = capsys.readouterr().err
        assert ("What their cells defined is lost. One" in told) == (spec is SPEC)
        assert ("1 h 00 min, keeps variables" in told) == (spec is not SPEC)
    kept = replace(lost, keeps_variables=True)
    again = "saved, and %ddl restart in its notebook loads it again."
    assert loss_text([kept, kept]) == f"What their cells defined is {again}"
    said = f"What their cells defined is lost, but for those that keep variables: there it is {again}"
    assert loss_text([kept, lost]) == said
    # The kernel that would load them is gone.
    monkeypatch.setattr(ClusterFolder, "spec", lambda _: replace(SPEC, keep_variables=True))
    assert not the_one().keeps_variables


def since(at_s: float) -> list[str]:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s)).split()


def test_the_command_lists_and_stops(
    folder: ClusterFolder, ended: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["clusters", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["state"]) == ("a", "idle")
    assert main(["clusters", "--stop-idle", "2h"]) == 0
    assert capsys.readouterr().out == "No cluster has been idle for 2h.\n"
    # Nobody can be asked: standard input is no terminal.
    assert main(["clusters", "--stop-idle", "30m"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.endswith("None was stopped.\n")
    assert "--yes stops them without asking." in told.err
    assert ended == []
    assert main(["clusters", "--stop-idle", "30m", "--yes"]) == 0
    assert capsys.readouterr().out == f"a of alice: stopped\nLogged in {log_file()}\n"
    assert ended == [os.getpid()]
