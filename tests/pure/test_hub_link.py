"""The kernel's side of the link: a cell waits for none of it, and what cannot be done is said."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from users import STRANGER, as_user, needs_root

from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import ClusterStartFailed
from jupyter_ddl.kernel import current, hub_link
from jupyter_ddl.kernel.hub_link import controls, link
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.link import Link
from jupyter_ddl.kernel.hub_link.state import State, fault_of
from jupyter_ddl.kernel.kernel_sessions import KernelSessions
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.faults import Facts, Fault, LastSample, StackPlace, Wait
from jupyter_ddl.protocol.hub_messages import Answer, Control, KernelState, RunNotice, from_kernel
from jupyter_ddl.views.fault import in_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHELL = SimpleNamespace(get_parent=lambda: {"metadata": {"cellId": "cell-1"}})


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "_sessions", KernelSessions())


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder:
        yield Path(folder) / "hub"


@pytest.fixture(autouse=True)
def tried_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "RETRY_S", 0.05)
    monkeypatch.setattr(link, "INTERVAL_S", 0.02)


def listening(path: Path) -> socket.socket:
    hub = socket.socket(socket.AF_UNIX)
    hub.settimeout(10)
    hub.bind(str(path))
    hub.listen()
    return hub


PLACE = StackPlace((1,), ("node-a",), ())


def text_of(fault: Fault | None) -> str | None:
    return None if fault is None else fault.text


def run(outcome: str | None, **fields: Any) -> Any:
    record = {} if outcome is None else {"outcome": outcome}
    folder = SimpleNamespace(record=record)
    return SimpleNamespace(
        **{"id": "run-1", "ranks": (0, 1), "folder": folder, "fault": None, "seconds": 2.0, "stall": None, **fields}
    )


def test_a_kernel_says_what_it_has_and_again_to_a_hub_that_was_restarted(path: Path) -> None:
    kernel = Link(path, State("kernel-1", SHELL), Controls())
    kernel.start()
    for _ in range(2):
        with listening(path) as hub:
            channel, _ = hub.accept()
            with channel, channel.makefile("rb") as lines:
                channel.settimeout(10)
                assert json.loads(lines.readline()) == {
                    "type": "kernel_state",
                    "kernel": "kernel-1",
                    "pid": os.getpid(),
                    "cluster": None,
                    "run": None,
                    "fault": None,
                    "whole_notebook": False,
                }
                channel.sendall(as_line(Control("7", "kernel-1", "interrupt", {})))
                answer = json.loads(lines.readline())
                assert answer["id"] == "7"
                assert answer["error"].startswith("Ranks must run before a cell can go to them. Received: no cluster.")
                kernel.note(run(None))
                told = json.loads(lines.readline())
                assert (told["type"], told["state"], told["run"]) == ("run_notice", "running", "run-1")
                assert (told["cell_id"], told["ranks"], told["seconds"]) == ("cell-1", "0-1", None)
                kernel.note(run("finished"))
                told = json.loads(lines.readline())
                assert (told["state"], told["cell_id"], told["seconds"]) == ("finished", "cell-1", 2.0)
        path.unlink()


def lines_of(kernel: Link, path: Path, made: Callable[[], None], count: int) -> list[dict[str, Any]]:
    """Return what a hub gets while `made` changes something; the kernel's first state is left out."""
    with listening(path) as hub:
        kernel.start()
        channel, _ = hub.accept()
        with channel, channel.makefile("rb") as lines:
            channel.settimeout(10)
            lines.readline()
            made()
            return [json.loads(lines.readline()) for _ in range(count)]


def test_a_runs_fault_is_told_with_the_run_before_it_is_told_as_the_kernels(path: Path) -> None:
    bad = in_short(RAISED)
    told = iter([KernelState("k", 1), KernelState("k", 1, fault=bad)])
    kernel = Link(path, State("k", SHELL), Controls())
    # What it says at a moment, whatever sessions there are.
    kernel._state = cast(
        "Any", SimpleNamespace(now=lambda: next(told), note=lambda _: RunNotice("k", "r", "failed", fault=bad))
    )
    first, second = lines_of(kernel, path, lambda: kernel.note(run("failed")), 2)
    assert (first["type"], second["type"]) == ("run_notice", "kernel_state")
    assert from_kernel(json.dumps(first)).fault == from_kernel(json.dumps(second)).fault == bad


def test_a_fault_stands_until_the_next_cell_begins_and_a_stall_for_as_long_as_it_lasts() -> None:
    session: Any = SimpleNamespace(why_lost=None, describe=lambda: {"state": "idle"})
    current.sessions().use(session)
    state = State("k", SHELL)
    bad = run("stalled", id="run-1", fault=Fault("stalled", facts=Facts(note="Ranks waited.", places=(PLACE,))))
    state.note(run(None, id="run-1"))
    # Where the ranks are is in the run's events.
    assert (
        state.note(bad).fault
        == state.now().fault
        == Fault("stalled", facts=Facts(note="Ranks waited."), text="Ranks waited.")
    )
    hung = run(None, id="run-2")
    state.note(hung)
    assert (state.now().run, state.now().fault) == ("run-2", None)
    hung.stall = Fault("stalled", ranks=(0, 1), facts=Facts(waits=(Wait(("loss",), (1,)),), places=(PLACE,)))
    assert text_of(state.now().fault) == (
        "The cell has stalled: not every rank has entered loss: rank 0 waits in it for rank 1."
    )
    state.note(run("interrupted", id="run-2"))
    assert (state.now().run, state.now().fault) == (None, None)


def test_a_lost_run_says_the_same_as_its_kernel_and_more_than_the_ranks_supervisor() -> None:
    session: Any = SimpleNamespace(why_lost=None, describe=lambda: {"state": "idle"})
    current.sessions().use(session)
    state = State("k", SHELL)
    state.note(run(None))
    session.why_lost = Fault("lost", "rank", (1,), "node-a", facts=Facts(status=3))
    assert text_of(state.now().fault) == "rank 1 on node-a exited with status 3."
    fault = Fault("lost", "rank", (1,), "node-a", facts=Facts(status=3, last=LastSample(0.5, 2**30)))
    told = "rank 1 on node-a exited with status 3. 0.5 s before it had 1 GiB of memory."
    assert state.note(run("lost", fault=fault)).fault == state.now().fault == replace(fault, text=told)
    # The ranks that replaced them are lost too.
    session.why_lost = None
    assert text_of(state.now().fault) == told
    session.why_lost = Fault("lost", "mpiexec", facts=Facts(status=1, output="more"))
    assert text_of(state.now().fault) == "mpiexec ended with status 1."


def test_a_hub_that_is_not_there_or_never_reads_costs_a_cell_nothing(path: Path) -> None:
    kernel = Link(path, State("kernel-1", SHELL), Controls())
    kernel.start()

    def note_often() -> float:
        began_s = time.monotonic()
        for _ in range(2000):
            kernel.note(run(None, ranks=range(1000)))
        return time.monotonic() - began_s

    assert note_often() < 5
    with listening(path) as hub:
        channel, _ = hub.accept()
        with channel:
            assert note_often() < 5
            assert len(kernel._notices) <= link.MAX_NOTICES


def test_it_is_begun_only_in_a_kernel_of_a_server_with_a_hub(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_link.begin(SimpleNamespace(kernel=object()))
    monkeypatch.setenv("JUPYTER_DDL_HUB", str(path))
    hub_link.begin(SimpleNamespace())
    # No IPKernelApp runs in this process.
    hub_link.begin(SimpleNamespace(kernel=object()))
    assert current.sessions().hub is None


RAISED = Fault("raised", "ranks", (1,), "node-a", facts=Facts(world_size=2, error="ValueError", message="no\nmore"))
TIMED_OUT = (
    "The cell must end within its timeout. Received: --timeout 2, and ranks still at it. They were released. "
    "Pass a longer one, or none."
)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (None, None),
        (Fault("interrupted", "user", facts=Facts(seconds=2.0)), None),
        (Fault("stopped", "user"), None),
        (Fault("stalled"), "Ranks waited for others, and all were released, as --on-stall abort says."),
        (Fault("timed out", facts=Facts(limit_s=2.0)), TIMED_OUT),
        (Fault("lost", "lease"), "the lease, which holds the cluster's processes, was killed."),
        (RAISED, "Rank 1 of 2 on node-a: ValueError: no"),
    ],
)
def test_a_run_that_went_wrong_is_told_in_a_line(fault: Fault | None, told: str | None) -> None:
    assert text_of(fault_of(run("some outcome", fault=fault))) == told


def answers_of(control: Control, controls: Controls) -> Answer:
    came = threading.Event()
    answers: list[Answer] = []

    def reply(answer: Answer) -> None:
        answers.append(answer)
        came.set()

    controls.take(control, reply)
    assert came.wait(10)
    return answers[0]


def test_a_control_before_any_start_and_during_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control("1", "k", "stacks", {})
    error = answers_of(control, Controls()).error or ""
    assert error.startswith("Ranks must run before a cell can go to them. Received: no cluster.")
    told: list[str] = []
    found: list[Any] = []

    def launch(spec: Any, step: Callable[[str], None], _: Any) -> Any:
        step("asking for ranks")
        found.append((answers_of(control, Controls()).error, State("k", SHELL).now()))
        raise ClusterStartFailed("no ranks")

    sessions = KernelSessions(launch)
    monkeypatch.setattr(current, "_sessions", sessions)
    spec = ClusterSpec("mine", 2, (), 1, {}, keep=False, oversubscribe=False, note="2 ranks")
    with pytest.raises(ClusterStartFailed):
        sessions.start(spec, told.append, rebuild=True)
    error, state = found[0]
    assert error == (
        "Ranks must have been started. Received: 'mine', which is still starting: asking for ranks. "
        "Wait for its ranks, or stop it."
    )
    assert told == ["2 ranks", "asking for ranks"]
    assert state.cluster is not None
    assert (state.cluster["state"], state.cluster["step"]) == ("starting", "asking for ranks")
    assert State("k", SHELL).now().cluster is None


def test_more_controls_than_a_kernel_does_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Controls()
    monkeypatch.setattr(controls, "_session", lambda _: None)
    gate = threading.Event()
    busy._deeds["stacks"] = lambda *_: gate.wait(10)
    done: list[Answer] = []
    for number in range(controls.MAX_AT_A_TIME + 1):
        busy.take(Control(str(number), "k", "stacks", {}), done.append)
    assert [(answer.id, answer.error) for answer in done] == [
        ("16", "A kernel does 16 controls at a time. Received: one more. Wait for an answer.")
    ]
    gate.set()


def test_an_error_of_ours_is_printed_and_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(controls, "_session", lambda _: None)
    error = answers_of(Control("1", "k", "interrupt", {}), Controls()).error
    assert error == "It was not done, for a reason that the kernel has printed."
    assert "AttributeError" in capsys.readouterr().err


def test_another_users_hub_is_told_nothing(path: Path) -> None:
    needs_root()
    path.parent.chmod(0o777)
    kernel = Link(path, State("kernel-1", SHELL), Controls())

    def begin() -> None:
        # As the other user is forked off this process, a socket that the link had already would be open there too, and
        # would not end when the link closes it. This thread is not forked along.
        deadline_s = time.monotonic() + 10
        while not path.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        kernel.start()

    def listen() -> str:
        with listening(path) as hub:
            hub.settimeout(10)
            path.chmod(0o777)
            channel, _ = hub.accept()
            with channel:
                channel.settimeout(10)
                # The kernel's end is closed, and nothing has come.
                return channel.recv(1000).decode()

    threading.Thread(target=begin).start()
    assert as_user(STRANGER, listen) == ""
