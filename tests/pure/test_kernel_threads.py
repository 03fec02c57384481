"""No thread of the kernel ends with an error that something then waits for: at its real seams, one after another."""

from __future__ import annotations

import errno
import json
import queue
import secrets
import threading
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from raising import DEADLINE_S, raising

from jupyter_ddl.cluster.announce import announce
from jupyter_ddl.cluster.channel import Channel, signer
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.rank_life import RankAlive, RankLost
from jupyter_ddl.protocol.requests import ReleaseAsked
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
