"""The link to the hub lives, and every control is answered, whatever raises."""

from __future__ import annotations

import json
import queue
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from raising import DEADLINE_S, eventually, raising

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.threads import ErrorsOnce, Supervised
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.link import Link
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import Answer, Control

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hub() -> Iterator[tuple[Path, socket.socket]]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder, socket.socket(socket.AF_UNIX) as server:
        server.settimeout(DEADLINE_S)
        server.bind(f"{folder}/hub")
        server.listen()
        yield Path(folder) / "hub", server


def states(server: socket.socket) -> Iterator[dict[str, Any]]:
    channel, _ = server.accept()
    channel.settimeout(DEADLINE_S)
    with channel, channel.makefile("rb") as lines:
        for line in lines:
            yield json.loads(line)


def test_a_default_timeout_of_the_users_does_not_end_the_link(hub: tuple[Path, socket.socket]) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.2)
    try:
        Link(hub[0], State("kernel-1", SimpleNamespace()), Controls()).start()
        channel, _ = hub[1].accept()
        # Nothing is said for longer than that, and the link is the same.
        time.sleep(1.0)
        channel.sendall(as_line(Control("7", "kernel-1", "interrupt", {})))
        channel.settimeout(DEADLINE_S)
        with channel.makefile("rb") as lines:
            assert any(json.loads(line).get("id") == "7" for line in lines)
        hub[1].settimeout(0.0)
        with pytest.raises(BlockingIOError):
            hub[1].accept()
        channel.close()
    finally:
        socket.setdefaulttimeout(before)


def test_a_state_that_cannot_be_had_does_not_end_the_link(
    hub: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = State("kernel-1", SimpleNamespace(get_parent=raising(TypeError("the front end"))))
    link = Link(hub[0], state, Controls())
    with monkeypatch.context() as patched:
        patched.setattr(state, "now", raising(KeyError("odd")))
        link.start()
        channel, _ = hub[1].accept()
        assert eventually(lambda: "KeyError: 'odd'" in capsys.readouterr().err)
    folder = SimpleNamespace(record={})
    # A notice whose cell is unknown is left out, and the state still comes.
    link.note(SimpleNamespace(id="run-1", folder=folder, ranks=(0,)))  # type: ignore[arg-type]
    channel.settimeout(DEADLINE_S)
    with channel, channel.makefile("rb") as lines:
        assert json.loads(lines.readline())["type"] == "kernel_state"


@pytest.mark.parametrize("raised", [KeyError("odd"), SystemExit(3), MemoryError()])
def test_every_control_is_answered(raised: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    controls = Controls()
    controls._deeds["stacks"] = raising(raised)
    controls._deeds["stop"] = lambda *_: {1, 2}
    controls_session = SimpleNamespace()
    answers: queue.Queue[Answer] = queue.Queue()

    def reply(answer: Answer) -> None:
        as_line(answer)
        answers.put(answer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("jupyter_ddl.kernel.hub_link.controls._session", lambda _: controls_session)
        for turn in range(20):
            controls.take(Control(str(turn), "kernel-1", "stacks", {}), reply)
            assert answers.get(timeout=DEADLINE_S).error
        controls.take(Control("21", "kernel-1", "stop", {}), reply)
        assert "not JSON serializable" in str(answers.get(timeout=DEADLINE_S).error)


def test_a_control_that_can_have_no_thread_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    controls, answers = Controls(), []
    monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    for _ in range(20):
        controls.take(Control("1", "kernel-1", "stacks", {}), answers.append)
    assert {answer.error.partition(",")[0] for answer in answers} == {
        "A kernel with ranks must be able to start threads. Received: can't start new thread"
    }


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3), KeyboardInterrupt()])
def test_a_supervised_thread_hands_on_what_it_raised(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    failed: queue.Queue[BaseException] = queue.Queue()
    Supervised(raising(error), "odd", failed.put).start()
    assert failed.get(timeout=DEADLINE_S) is error


def test_a_thread_that_cannot_be_started_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    with pytest.raises(HostUnfit, match=r"^A kernel with ranks must be able to start threads\. Received: can't start"):
        Supervised(lambda: None, "odd", lambda _: None).start()


def test_errors_are_printed_once_for_each_place_and_on_nothing_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = ErrorsOnce()
    for message in ("first", "second"):
        try:
            raise ValueError(message)
        except ValueError as error:
            errors.tell(error)
    assert capsys.readouterr().err.count("ValueError: ") == 1
    monkeypatch.setattr(sys, "excepthook", raising(OSError("closed")))
    errors.tell(KeyError("printed nowhere"))
