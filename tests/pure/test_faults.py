"""A fault: one table of each kind and its text, its way through files, and what older versions wrote."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.cluster.folder import ending_of
from jupyter_ddl.protocol import faults
from jupyter_ddl.protocol.codec import as_json, as_line, decode, record_of
from jupyter_ddl.protocol.events import Event, MetricsSample, RankFailed, RunFinished, StallReported
from jupyter_ddl.protocol.faults import (
    Facts,
    Fault,
    Frame,
    LastSample,
    RankProcess,
    Remedy,
    StackPlace,
    Thread,
    Wait,
)
from jupyter_ddl.protocol.rank_life import RankLost, RankSilent
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.reading import event_of
from jupyter_ddl.runs.store import read_record
from jupyter_ddl.views.event_batches import to_json
from jupyter_ddl.views.fault import describe, headline, render_fault, render_process, render_remedy, with_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path))
    return tmp_path


FAILED = RankFailed("r", 1, "node-a", "ValueError", "no", ("Traceback", "ValueError: no"), released=False, at_s=1.0)
FRAME = Frame("/tmp/ipykernel_1/2.py", 3, "<module>", "f()")
KILLED = Fault(
    "lost",
    "rank",
    (1,),
    "node-a",
    12.0,
    "out of memory killer",
    Remedy("replaced", 2, 1),
    Facts(world_size=2, pid=7, signum=9, oom_kills=1, last=LastSample(0.5, 3 * 2**29, 13 * 2**30, 15 * 2**30, 7)),
)
STALL = Fault(
    "stalled",
    "ranks",
    (0, 1, 2),
    facts=Facts(
        world_size=3,
        seconds=5.4,
        waits=(Wait(("a", "b", "c", "d"), (1,)), Wait(("e",), (0,)), Wait(("f",))),
        places=(
            StackPlace((0, 2), ("host", "host"), (Thread("MainThread", (FRAME,)),)),
            StackPlace((1,), ("host",), (), "it held Python's lock"),
        ),
    ),
)
STALL_TEXT = """The cell has stalled for 5.4 s: not every rank has entered
  a, b, c and 1 more: ranks 0, 2 wait in it for rank 1
  e: ranks 1-2 wait in it for rank 0
  f
Ranks 0, 2 of 3 on host
  cell line 3: f()
Rank 1 of 3 on host
  (it held Python's lock)"""
GIVEN_UP = Facts(
    seconds=15.4, outcome="timed out", processes=(RankProcess(1, "stopped", 77, "node-a"), RankProcess(2, "importing"))
)
LOST = "Ranks must live to the end of the cell. Received: "

# Of each kind: the fault, and all that a cell says of it.
TEXTS: list[tuple[Fault, str]] = [
    (
        KILLED,
        LOST + "rank 1 on node-a was ended by signal 9 (Killed). 0.5 s before it had 1.5 GiB of memory, and its GPU "
        "13 GiB of 15 GiB in use. Likely cause: the Linux kernel ended it for lack of memory (its out-of-memory killer "
        "ran meanwhile). Take smaller batches, fewer ranks on the host, or a job with more memory.\n"
        "2 new ranks are being started on the same devices: the next cell waits for them. The variables on the ranks "
        "are lost, and 1 setup cell will be run again. Logs: /runs/r",
    ),
    (
        Fault("lost", "rank", (), "n-2", cause="signal", facts=Facts(pid=77, signum=15)),
        LOST + "the rank with PID 77 on n-2 was ended by signal 15 (Terminated). Likely cause: a user or a batch "
        "system asked it to end.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "rank", (1,), facts=Facts(status=3), remedy=Remedy("restart")),
        LOST + "rank 1 exited with status 3.\n%ddl restart starts new ones. Logs: /runs/r",
    ),
    (Fault("lost", "rank", (1,)), LOST + "rank 1 ended its own process.\nLogs: /runs/r"),
    (
        Fault("lost", "rank", (1,), facts=Facts(pid=7, is_unseen=True)),
        LOST + "rank 1 ended: its process 7 is gone, and its exit status is not known.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "ranks", (0, 2, 3)),
        LOST + "the processes of ranks 0,2-3 are gone, and the lease does not know how.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "mpiexec", facts=Facts(signum=9, output="last\nwords")),
        LOST + "mpiexec was ended by signal 9 (Killed), and its ranks with it.\nlast\nwords\nLogs: /runs/r",
    ),
    (Fault("lost", "mpiexec", facts=Facts(status=213)), LOST + "mpiexec ended with status 213.\nLogs: /runs/r"),
    (
        Fault("lost", "controller", facts=Facts(status=-9)),
        LOST + "ipyparallel's controller ended with status -9.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "host", host="node-b"),
        LOST + "node-b was lost: mpiexec reaches its daemon there no more (the host went down, its network failed, or "
        "the daemon was killed).\nLogs: /runs/r",
    ),
    (
        Fault("lost", "job", facts=Facts(by="Slurm job 12", outcome="TIMEOUT")),
        LOST + "Slurm job 12 reached its time limit.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "job", facts=Facts(by="Slurm job 12", outcome="BOOT_FAIL")),
        LOST + "Slurm job 12 ended as BOOT_FAIL.\nLogs: /runs/r",
    ),
    (Fault("lost", "lease"), LOST + "the lease, which holds the cluster's processes, was killed.\nLogs: /runs/r"),
    (
        Fault("lost", "event reader", facts=Facts(error="OSError: {odd}")),
        LOST + "the kernel can no longer read its ranks' events (OSError: {odd}).\nLogs: /runs/r",
    ),
    (
        Fault("lost", "lease watch", facts=Facts(error="KeyError: 1")),
        LOST + "the kernel can no longer watch the cluster's lease (KeyError: 1).\nLogs: /runs/r",
    ),
    (
        Fault("lost", "host watch", facts=Facts(error="KeyError: 1")),
        LOST + "the hosts of the ranks can no longer be watched (KeyError: 1).\nLogs: /runs/r",
    ),
    (
        Fault("lost", "connection", host="node-a", facts=Facts(error="Timeout, server node-a not responding.")),
        LOST + "the SSH connection to node-a, through which its ranks are held, ended (Timeout, server node-a not "
        "responding.).\nLogs: /runs/r",
    ),
    (
        Fault("lost", "release", (1, 2), facts=GIVEN_UP),
        LOST + "the cell timed out, and ranks 1-2 did not answer the release within 15 s: rank 1: its process 77 is "
        "stopped (SIGSTOP, a debugger or a batch system); `kill -CONT 77` resumes it; rank 2: it is still importing "
        "TensorFlow, which nothing can interrupt.\nLogs: /runs/r",
    ),
    (
        Fault("lost", "release", (1,), facts=replace(GIVEN_UP, outcome="", by="the panel", processes=())),
        LOST + "the cell was interrupted by the panel, and rank 1 did not answer the release within 15 s: .\n"
        "Logs: /runs/r",
    ),
    (Fault("lost", "unknown", facts=Facts(note="gone")), LOST + "gone.\nLogs: /runs/r"),
    (
        Fault("stopped", "user", remedy=Remedy("restarting")),
        LOST + "stopped\nNew ones are being started. Logs: /runs/r",
    ),
    (Fault("stopped", "kernel"), LOST + "its kernel ended\nLogs: /runs/r"),
    (
        Fault("stopped", "idle", facts=Facts(by="a teacher", seconds=2700.0)),
        LOST + "stopped by a teacher, after 45 min 0 s without a run\nLogs: /runs/r",
    ),
    (
        Fault("unanswered", "ranks", (1, 2), facts=Facts(limit_s=15.0, outcome="timed out")),
        (
            "Every rank must answer its release within 15 s. "
            "Received: nothing from ranks 1-2 (timed out). They are blocked outside Python and Horovod: the next cell "
            "works once they have answered, and %ddl restart starts new ones. Logs: /runs/r"
        ),
    ),
    (
        Fault("silent", "rank", (1,), facts=Facts(seconds=10.4, processes=(RankProcess(1, "disk", 7),))),
        "rank 1 has not answered for 10 s: its process 7 waits for a disk or a network file system",
    ),
    (STALL, STALL_TEXT),
    (
        replace(STALL, facts=replace(STALL.facts, outcome="stalled")),
        STALL_TEXT + "\nThe ranks were released, as --on-stall abort says.",
    ),
    (
        replace(STALL, facts=Facts(seconds=30.0, waits=(Wait(("loss",), (1,)),), error="OSError: odd")),
        (
            "Ranks have waited for 30 s in a collective (loss) that others have not entered. "
            "Where they are could not be looked up: OSError: odd"
        ),
    ),
    (Fault("stalled"), "Ranks waited for others, and all were released, as --on-stall abort says."),
    (
        Fault("timed out", facts=Facts(limit_s=2.0)),
        (
            "The cell must end within its timeout. "
            "Received: --timeout 2, and ranks still at it. They were released. Pass a longer one, or none."
        ),
    ),
    (
        Fault("interrupted", "user", facts=Facts(seconds=2.04, by="the panel")),
        "The cell was interrupted by the panel after 2 s, and its ranks were released.",
    ),
    (Fault("interrupted", "user", facts=Facts(signum=15)), "Ended by SIGTERM."),
    (Fault("interrupted", "user", facts=Facts(error="KeyboardInterrupt")), "KeyboardInterrupt"),
    (Fault("cut off", "kernel"), "The kernel that ran it ended before it did."),
    (
        Fault("raised", "ranks", (1,), "node-a", facts=Facts(world_size=2, error="ValueError", message="no")),
        "Rank 1 of 2 on node-a: ValueError: no",
    ),
]


@pytest.mark.parametrize(("fault", "text"), TEXTS, ids=lambda value: getattr(value, "subject", None))
def test_each_fault_has_its_text(fault: Fault, text: str) -> None:
    assert render_fault(fault, logs="/runs/r") == text


def test_the_table_has_every_kind_and_what_can_be_lost() -> None:
    assert {fault.kind for fault, _ in TEXTS} == set(get_args(faults.Kind))
    assert {fault.subject for fault, _ in TEXTS} == set(get_args(faults.Subject))


def test_what_ranks_raised_is_told_with_their_tracebacks() -> None:
    facts = Facts(world_size=3, error="ValueError", message="no", released=(0, 2))
    raised = Fault("raised", "ranks", (1,), "node-a", facts=facts)
    report = "Rank 1 of 3 on node-a\nTraceback\nValueError: no"
    assert render_fault(raised, [FAILED]) == f"{report}\n\nRanks 0, 2 aborted because rank 1 raised"
    others = replace(raised, facts=replace(facts, released=(), finished=(0,), killed=(2,)))
    assert render_fault(others, [FAILED], program="script") == (
        f"{report}\n\nRank 0 had ended before, and Horovod with it\n\n"
        "Rank 2 had not ended by then, and had to be killed"
    )
    lost = Fault("lost", "lease", facts=Facts(world_size=3))
    assert render_fault(lost, [FAILED], program="script") == (
        "Ranks must live to the end of the script. Received: the lease, which holds the cluster's processes, was "
        f"killed.\n\n{report}"
    )


@pytest.mark.parametrize("step", get_args(faults.Step))
def test_each_remedy_has_a_text(step: faults.Step) -> None:
    told = render_remedy(Remedy(step, 1, 0, "OSError: {odd}"))
    assert told.endswith(".")
    assert ("OSError: {odd}" in told) == (step == "not replaced")
    assert ("1 new rank is" in told) == step.startswith("replaced")
    resumed = render_remedy(Remedy(step, 1, checkpoints=("saved", "/{odd}")))
    assert resumed.endswith(" Run again on new ranks, the cell resumes from its newest checkpoint in saved, /{odd}.")


@pytest.mark.parametrize("state", get_args(faults.ProcessState))
def test_each_state_of_a_process_has_a_text(state: faults.ProcessState) -> None:
    told = render_process(RankProcess(1, state, 77, "node-a", "{odd}"))
    assert "None" not in told
    assert ("{odd}" in told) == (state in ("hidden", "other", "in words"))


def test_a_headline_is_one_line_of_bounded_length() -> None:
    assert headline(KILLED) == describe(KILLED)
    assert headline(Fault("lost", "mpiexec", facts=Facts(status=1, output="more"))) == "mpiexec ended with status 1."
    waits = "The cell has stalled: not every rank has entered a, b, c and 1 more: ranks 0, 2 wait in it for rank 1;"
    assert headline(STALL).startswith(waits)
    ended = headline(replace(STALL, facts=replace(STALL.facts, outcome="stalled")))
    assert ended == f"{headline(STALL)} The ranks were released, as --on-stall abort says."
    long = Fault("raised", "ranks", (1,), facts=Facts(error="ValueError", message="x" * 2_000))
    assert len(headline(long)) == 500


EVENTS = [
    RankLost(1, KILLED, 12.0),
    RankSilent(1, 10.0, TEXTS[18][0], 12.0),
    StallReported("r", (0, 1, 2), 12.0, STALL),
    RunFinished("r", "lost", 3.0, KILLED),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_a_fault_crosses_with_its_event_and_a_browser_has_its_text_too(event: Any) -> None:
    assert decode(as_json(event), Event) == event
    assert event_of(as_json(event)) == event
    assert decode(to_json(event), Event).fault == with_text(event.fault)
    assert with_text(event.fault).text.startswith(headline(event.fault)[:20])


@pytest.mark.parametrize("fault", [fault for fault, _ in TEXTS], ids=lambda fault: fault.subject)
def test_run_json_keeps_the_fault(fault: Fault, runs: Path) -> None:
    folder = RunFolder("tests")
    folder.write("1", ranks=[0, 1], world_size=2)
    folder.update(outcome="lost", fault=asdict(fault))
    assert read_record(folder.path).fault == fault


@pytest.mark.parametrize("odd", [1, "text", [], {}, {"kind": "odd"}, {"kind": "lost", "facts": {"signum": "9"}}])
def test_what_is_no_fault_in_run_json_is_none(odd: object, runs: Path) -> None:
    folder = RunFolder("tests")
    folder.update(outcome="lost", fault=odd)
    assert read_record(folder.path).fault is None


def test_a_record_is_an_object_with_all_its_fields() -> None:
    with pytest.raises(ValueError, match=r"A Fault must be what its class says\. Received: Expected `object`"):
        record_of(Fault, [])
    with pytest.raises(ValueError, match="Received: Object missing required field `kind`"):
        record_of(Fault, {"host": "node-a"})


def test_show_says_what_the_cell_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder("tests")
    folder.write("1", ranks=[0, 1], world_size=2)
    folder.update(outcome="lost", fault=asdict(KILLED))
    (folder.path / "events.jsonl").write_bytes(as_line(RankLost(1, replace(KILLED, remedy=None), 12.0)))
    assert main(["show"]) == 0
    live = render_fault(KILLED, logs=folder.path)
    assert capsys.readouterr().out.partition("\n")[2] == f"ClusterLost: {live}\n"


# What older versions wrote, and how it is told.
OLDER = [
    (
        {"type": "rank_lost", "rank": 1, "cause": "rank 1 on vm was ended by signal 9 (Killed)", "at_s": 2.0}
        | {"host": "vm", "signum": 9, "oom_kills": 1, "asked": False},
        "rank 1 on vm was ended by signal 9 (Killed). Likely cause: the Linux kernel ended it for lack of memory",
    ),
    ({"type": "rank_lost", "rank": None, "cause": "mpiexec ended\nlast", "at_s": 2.0}, "mpiexec ended.\nlast"),
    ({"type": "rank_lost", "rank": None, "cause": "stopped", "at_s": 2.0, "asked": True}, "stopped"),
    (
        {"type": "rank_silent", "rank": 1, "seconds": 10.0, "state": "its process is gone", "at_s": 2.0},
        "rank 1 has not answered for 10 s: its process is gone",
    ),
    (
        {"type": "stall_reported", "run": "r", "ranks": [0, 1], "at_s": 2.0, "text": "It stalled\nhere"},
        "It stalled\nhere",
    ),
]


@pytest.mark.parametrize(("content", "told"), OLDER)
def test_what_an_older_version_said_in_words_is_read(content: dict[str, Any], told: str) -> None:
    event: Any = event_of(json.dumps(content).encode())
    assert event.type == content["type"]
    assert with_text(event.fault).text.startswith(told)


@pytest.mark.parametrize("odd", [None, 1, [], {}])
@pytest.mark.parametrize("content", [content for content, _ in OLDER])
def test_what_no_version_wrote_is_no_event(content: dict[str, Any], odd: object) -> None:
    name = "cause" if "cause" in content else "state" if "state" in content else "text"
    assert event_of(json.dumps({**content, name: odd}).encode()) is None


def test_the_lease_of_an_older_version_is_understood() -> None:
    death = {"rank": 1, "host": "vm", "pid": 7, "signum": 15, "status": None, "is_unseen": False}
    said = {"asked": False, "cause": "rank 1 was ended\nlast", "at_s": 2.0, "death": death, "oom_kills": 0}
    assert describe(ending_of(json.dumps(said))).startswith("rank 1 was ended. Likely cause: a user or a batch system")
    assert ending_of(json.dumps({**said, "asked": True, "death": None})).kind == "stopped"


def test_a_sample_is_unlike_a_fault() -> None:
    assert "fault" not in json.loads(to_json(MetricsSample("r", 0, 1.0, 2.0, 3)))
