"""No thread of the kernel ends with an error that something then waits for: at its real seams, one after another."""

from __future__ import annotations

import errno
import json
import os
import queue
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import zmq
from kernel_sides import RANKS

from jupyter_ddl import paths
from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster import rank_stacks, supervisor
from jupyter_ddl.cluster.announce import announce
from jupyter_ddl.cluster.channel import Channel, signer
from jupyter_ddl.cluster.supervisor import Supervisor
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.threads import ErrorsOnce, Supervised
from jupyter_ddl.kernel import checkpoint_offer
from jupyter_ddl.kernel.checkpoint_offer import Offer
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.link import Link
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.kernel.stall_watch import StallWatch
from jupyter_ddl.launch.place import HERE
from jupyter_ddl.protocol import checkpoint_folder
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.codec import as_line, encode
from jupyter_ddl.protocol.events import (
    CollectiveStalled,
    RankAlive,
    RankFailed,
    RankFinished,
    RankLost,
    RankReady,
    StallReported,
)
from jupyter_ddl.protocol.hub_messages import Answer, Control
from jupyter_ddl.protocol.requests import ReleaseAsked
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.views.fault import describe, render_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 30.0


def raising(error: BaseException) -> Callable[..., Any]:
    def do(*_: Any, **__: Any) -> Any:
        raise error

    return do


def eventually(call: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        if call():
            return True
        time.sleep(0.02)
    return False


class Controller:
    """The controller's sockets, as far as a kernel hears them: events come in from ranks and go out to kernels."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.out, self.come = self.context.socket(zmq.XPUB), self.context.socket(zmq.SUB)
        ports = [each.bind_to_random_port("tcp://127.0.0.1") for each in (self.out, self.come)]
        self.come.subscribe(b"")
        key = secrets.token_hex()
        signed = {"key": key, "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json"}
        address = {"interface": "tcp://127.0.0.1", "mux": ports[0], "control": ports[0]}
        self.client_file, self.engine_file = folder / "client.json", folder / "engine.json"
        self.client_file.write_text(json.dumps({**signed, **address, "iopub": ports[0]}))
        self.engine_file.write_text(json.dumps({**signed, **address, "iopub": ports[1]}))
        self.signer = signer(signed)

    def wait_for_kernel(self) -> None:
        assert self.out.poll(int(DEADLINE_S * 1000))
        self.out.recv()

    def send(self, content: Any) -> None:
        message = self.signer.msg("ddl_event", content=json.dumps(content).encode())
        self.out.send_multipart(self.signer.serialize(message, ident=b"ddl"))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    made = Controller(tmp_path)
    yield made
    made.context.destroy(linger=0)


@pytest.fixture
def heard(controller: Controller) -> Iterator[tuple[Channel, queue.Queue[Any]]]:
    events: queue.Queue[Any] = queue.Queue()

    def take(event: Any) -> None:
        if isinstance(event, RankAlive) and event.interrupted == "raise":
            raise TypeError("a listener")
        events.put(event)

    channel = Channel(controller.client_file, "world", take)
    controller.wait_for_kernel()
    yield channel, events
    channel.close()


BAD = {
    "no delimiter": [b"ddl", b"noise"],
    "no frame after the delimiter": [b"ddl", b"<IDS|MSG>"],
    "unsigned": [b"ddl", b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b'{"type": "ping"}'],
    "too few frames": [b"ddl", b"<IDS|MSG>", b"x"],
}


@pytest.mark.parametrize("what", BAD)
def test_noise_does_not_end_the_reader(
    what: str, controller: Controller, heard: tuple[Channel, queue.Queue[Any]]
) -> None:
    for _ in range(2):
        controller.out.send_multipart(BAD[what])
        controller.send(encode(RankAlive(1)))
        assert heard[1].get(timeout=DEADLINE_S) == RankAlive(1)


NO_EVENTS = [{}, {"type": "of another version"}, {"type": "rank_alive"}, [], None, 7, {"type": ["odd"]}, {"type": {}}]


@pytest.mark.parametrize("content", NO_EVENTS, ids=repr)
def test_a_signed_message_that_is_no_event_does_not_end_the_reader(
    content: Any, controller: Controller, heard: tuple[Channel, queue.Queue[Any]]
) -> None:
    controller.send(content)
    controller.send(encode(RankAlive(1)))
    assert heard[1].get(timeout=DEADLINE_S) == RankAlive(1)


def test_what_an_event_leads_to_may_raise_and_is_printed_once(
    controller: Controller, heard: tuple[Channel, queue.Queue[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        controller.send(encode(RankAlive(0, "raise")))
    controller.send(encode(RankAlive(1)))
    assert heard[1].get(timeout=DEADLINE_S) == RankAlive(1)
    assert capsys.readouterr().err.count("TypeError: a listener") == 1


@pytest.mark.parametrize("last", [RankFinished.type, RankFailed.type])
def test_a_last_word_that_cannot_be_read_is_the_ranks_failure(
    last: str, controller: Controller, heard: tuple[Channel, queue.Queue[Any]]
) -> None:
    controller.send({"type": last, "run": "run-1", "rank": 1, "host": "node-a"})
    failed = heard[1].get(timeout=DEADLINE_S)
    assert isinstance(failed, RankFailed)
    assert (failed.run, failed.rank, failed.name) == ("run-1", 1, "UnreadableReport")
    assert failed.message.startswith(
        f"The rank's report of its end could not be read: ValueError: A {last} message must be what its class says."
    )


def test_a_reader_that_fails_ends_the_runs_with_its_cause(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zmq.Poller, "poll", raising(OSError(errno.EMFILE, "Too many open files")))
    events: queue.Queue[Any] = queue.Queue()
    channel = Channel(controller.client_file, "world", events.put)
    lost = events.get(timeout=DEADLINE_S)
    assert isinstance(lost, RankLost)
    assert (
        describe(lost.fault)
        == "the kernel can no longer read its ranks' events (OSError: [Errno 24] Too many open files)."
    )
    assert "Too many open files" in capsys.readouterr().err
    channel.close()


def test_what_is_announced_goes_the_ranks_way(controller: Controller) -> None:
    asked = ReleaseAsked("kernel-2", "the panel", 3.0)
    threading.Thread(target=announce, args=(asked, controller.engine_file)).start()
    assert controller.come.poll(int(DEADLINE_S * 1000))
    topic, *frames = controller.come.recv_multipart()
    assert topic == b"ddl"
    assert json.loads(frames[-1]) == encode(asked)


def test_an_announcement_that_cannot_be_made_raises_nothing(
    controller: Controller, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(ReleaseAsked("kernel-2", "the panel", 3.0), tmp_path / "gone.json")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(zmq.Context, "socket", raising(zmq.ZMQError(errno.EMFILE)))
    announce(ReleaseAsked("kernel-2", "the panel", 3.0), controller.engine_file)
    assert "Too many open files" in capsys.readouterr().err


# The supervisor's two threads.


def supervised(lease: Any, tell: Callable[[Any], None], ask: Callable[..., None] = lambda *_, now: None) -> Supervisor:
    folder = SimpleNamespace(
        settings=lambda: {"world_id": "world"},
        is_elsewhere=False,
        spec=lambda: SimpleNamespace(place=HERE),
        ending=lambda: None,
        lease=lambda: None,
    )
    ranks = {rank: RankReady(rank, 2, rank, "elsewhere", 4710, "CPU", 2) for rank in RANKS}
    transport = SimpleNamespace(send=ask)
    return Supervisor(folder, lease, ranks, transport, tell, ranks)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", [b"no JSON\n", b"[]\n", b'{"asked": false}\n', b"\xff\n"])
def test_a_lease_whose_last_word_cannot_be_read_ends_the_runs(line: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    lease = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({line!r})"], stdout=subprocess.PIPE
    )
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, told.put)
    watching.start()
    lost = told.get(timeout=DEADLINE_S)
    assert isinstance(lost, RankLost)
    assert describe(lost.fault).startswith("the kernel can no longer watch the cluster's lease (")
    watching.join()
    lease.wait()
    leases.close_pipes(lease)


def held() -> subprocess.Popen[bytes]:
    """Start what ends as a lease does: when its standard input says so, or closes."""
    said = '{"kind": "stopped", "subject": "user"}'
    return subprocess.Popen(["sh", "-c", f"read line; echo '{said}'"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def is_closed(lease: subprocess.Popen[bytes]) -> bool:
    assert lease.stdin is not None
    assert lease.stdout is not None
    return lease.stdin.closed and lease.stdout.closed


def test_the_watch_closes_the_pipes_of_a_lease_that_another_kernel_ended() -> None:
    # A ResourceWarning, which fails a test, where they stay open.
    lease = held()
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, told.put)
    watching.start()
    lease.terminate()
    assert isinstance(told.get(timeout=DEADLINE_S), RankLost)
    watching.join()
    assert is_closed(lease)
    leases.tell_to_stop(lease)


def test_no_descriptor_is_closed_that_the_watch_polls() -> None:
    # A stop by a listener, in the watch's own thread, and one by another thread while it polls.
    lease = held()
    told: queue.Queue[Any] = queue.Queue()
    watching = supervised(lease, lambda event: (watching.join(), told.put((event, is_closed(lease)))))
    watching.start()
    leases.tell_to_stop(lease)
    watching.join()
    event, was_closed = told.get(timeout=DEADLINE_S)
    assert (event.fault.kind, was_closed) == ("stopped", False)
    assert told.empty()
    assert is_closed(lease)


def test_a_cluster_that_was_stopped_while_it_started_is_not_watched() -> None:
    lease = held()
    watching = supervised(lease, lambda _: pytest.fail("told"))
    leases.tell_to_stop(lease)
    watching.join()
    assert is_closed(lease)
    watching.start()
    watching.join()


def test_a_stop_finds_that_the_watch_has_closed_the_pipe_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = held()
    pipe = lease.stdin
    assert pipe is not None

    class Checked:
        """The pipe as a stop sees it that has checked it before the watch closed it."""

        closed = False

        def __enter__(self) -> Any:
            leases.close_pipes(lease)
            return pipe

        def __exit__(self, *_: object) -> None: ...

    lease.terminate()
    lease.wait()
    real, lease.stdin = lease.stdin, Checked()  # type: ignore[assignment]
    monkeypatch.setattr(Checked, "close", lambda _: pipe.close(), raising=False)
    leases.tell_to_stop(lease)
    lease.stdin = real
    assert is_closed(lease)


def test_a_supervisor_that_fails_once_looks_after_the_ranks_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "_TICK_S", 0.01)
    monkeypatch.setattr(supervisor, "_ASK_S", 0.02)
    asked = threading.Event()
    times = iter([raising(OSError(errno.EMFILE, "odd"))])

    def ask(*_: Any, now: bool) -> None:
        next(times, lambda: asked.set())()

    watching = supervised(None, lambda _: None, ask)
    watching.attend(lambda: set(RANKS))
    assert asked.wait(DEADLINE_S)
    assert "OSError: [Errno 24] odd" in capsys.readouterr().err
    watching.join()


# A stall's report, for which `--on-stall abort` waits.


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    return Run(RunFolder("tests"), RANKS, 2)


@pytest.mark.parametrize("seam", ["the look", "the thread"])
def test_a_stall_is_reported_also_where_ranks_cannot_be_looked_at(
    seam: str, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = OSError(errno.EMFILE, "odd")
    watch = StallWatch(run, StallOptions(5.0, "abort"), raising(error))
    if seam == "the thread":
        monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    watch.handle(CollectiveStalled(run.id, 0, time.time(), 30.0, ("loss",), {"1": ["loss"]}))
    report = run.events.get(timeout=DEADLINE_S)
    assert isinstance(report, StallReported)
    assert render_fault(report.fault).startswith(
        "Ranks have waited for 30 s in a collective (loss) that others have not entered. Where they are could not be "
        "looked up: "
    )
    watch.handle(report)
    assert watch.aborts


@pytest.mark.parametrize("content", ["", "cut", "a b c\n"], ids=["empty", "cut", "odd"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_stacks_that_cannot_be_read_are_told_as_that(
    content: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = {0: RankReady(0, 1, 0, socket.gethostname(), os.getpid(), "CPU", 2)}
    transport: Any = SimpleNamespace(send=lambda *_, **__: None)
    path = tmp_path / "rank-0.stacks"
    path.write_text("0x1 7\n" if when == "after" else content)
    looks = rank_stacks.StackLooks(ranks, transport, log_dir=tmp_path)
    monkeypatch.setattr(looks, "_process", lambda _: psutil.Process())
    monkeypatch.setattr(rank_stacks, "_catches", lambda _: True)
    monkeypatch.setattr(rank_stacks, "_signal_thread", lambda *_: path.write_text(content))
    seen = looks.look([0], 0.2)[0]
    assert "not enough values to unpack" in str(seen.note) or "too many values to unpack" in str(seen.note)
    assert seen.note.startswith("it did not answer within 1 s: " if when == "before" else "its stacks cannot be read: ")


# Where a lost training can go on.


def test_a_folder_of_checkpoints_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(Path, "iterdir", raising(OSError(errno.ESTALE, os.strerror(errno.ESTALE))))
    assert Offer([str(tmp_path / "saved")]).text() == (
        f"\nThe checkpoints in {tmp_path}/saved cannot be read: Stale file handle."
    )


def test_a_folder_of_checkpoints_that_does_not_answer_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(checkpoint_offer, "newest", lambda _: never.wait())
    assert Offer(["/mnt/away"]).text(0.2) == "\nThe checkpoints in /mnt/away could not be looked for: no answer yet."
    never.set()


@pytest.mark.parametrize("error", [KeyError("odd"), MemoryError(), SystemExit(3)])
def test_a_search_for_checkpoints_that_fails_is_told(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkpoint_folder, "_matches", raising(error))
    text = Offer(["/nowhere"]).text()
    assert text.startswith(f"\nThe search for checkpoints failed: {type(error).__name__}")


def test_no_checkpoints_are_looked_for_where_none_were_saved() -> None:
    assert Offer([]).text() == ""


# The link to the hub.


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


# What they are made of.


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
