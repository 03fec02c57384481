"""A script's relay and the terminal's listener: over a real socket of loopback, with a rank that is no MPI's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import zmq

from jupyter_ddl.host import run_module
from jupyter_ddl.protocol.codec import as_json, decode
from jupyter_ddl.protocol.events import CollectiveStalled, Event, OutputChunk, RankFailed
from jupyter_ddl.protocol.requests import Release
from jupyter_ddl.protocol.script_frames import END, EVENTS, HELLO, KEPT_MESSAGES, STDOUT, Connection, Hello, RankEnded
from jupyter_ddl.script.network_listener import NetworkListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.protocol.events import Stream

# What `rank.script_main` does, without MPI.
RANK = """
import os, signal, sys, time
from dataclasses import replace
from jupyter_ddl.protocol.codec import as_line, decode
from jupyter_ddl.protocol.events import RankFinished
from jupyter_ddl.protocol.rank_life import RankAlive
from jupyter_ddl.protocol.script_frames import Connection
from jupyter_ddl.protocol.script_pipes import HeldPipes
pipes = HeldPipes([int(number) for number in os.environ["JUPYTER_DDL_PIPES"].split(",")])
line = sys.stdin.readline()
pipes.take_streams()
{before}
pipes.tell_relay(as_line(replace(decode(line, Connection), rank=0)))
sys.stdout.reconfigure(line_buffering=True)
events = pipes.open_events()
send = lambda event: os.write(events, as_line(event))
"""


class Taken:
    """What a listener has read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.written = {"stdout": b"", "stderr": b""}
        self.order: list[str] = []

    def take(self, event: Event) -> None:
        if not isinstance(event, OutputChunk):
            self.events.append(event)
            self.order.append(type(event).__name__)

    def take_output(self, rank: int, stream: Stream, data: bytes, shown: bytes) -> None:
        self.written[stream] += data
        self.order.append(stream)

    def take_stall(self, stalled: CollectiveStalled) -> None:
        raise AssertionError(stalled)


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def listener(taken: Taken) -> Iterator[NetworkListener]:
    made = NetworkListener("127.0.0.1", 2, taken, shows_start=True, run=None, clock_offsets_s={"ahead": 100.0})
    with closing(made):
        yield made


def relayed(listener: NetworkListener, program: str, before: str = "") -> subprocess.Popen[bytes]:
    """Start a rank that runs a program, and what comes before its relay knows it."""
    code = RANK.format(before=before) + program
    relay = subprocess.Popen(
        [*run_module.command("jupyter_ddl.rank.script_relay"), sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert relay.stdin is not None
    relay.stdin.write(listener.line_for_ranks)
    relay.stdin.close()
    return relay


def read_until(listener: NetworkListener, is_over: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not is_over():
        assert time.monotonic() < deadline_s
        listener.read(0.1)


def test_all_that_a_killed_rank_wrote_comes_and_then_how_it_ended(taken: Taken, listener: NetworkListener) -> None:
    lines = 30_000
    relay = relayed(
        listener,
        f"for line in range({lines}): print('line', line)\nprint('noted', file=sys.stderr, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    read_until(listener, lambda: relay.poll() is not None)
    assert taken.written["stdout"].decode().splitlines() == [f"line {line}" for line in range(lines)]
    assert taken.written["stderr"] == b"noted\n"
    ended = listener.ended[0]
    assert (ended.rank, ended.status, ended.asked) == (0, -signal.SIGKILL, False)
    # mpiexec sees the rank's own end.
    assert relay.returncode == -signal.SIGKILL


def test_what_was_printed_before_an_event_comes_before_it_and_the_status_is_the_ranks(
    taken: Taken, listener: NetworkListener
) -> None:
    relay = relayed(listener, "print('before')\nsend(RankFinished('run', 0, 1.0))\nsys.exit(7)")
    read_until(listener, lambda: relay.poll() is not None)
    # A print may come in two parts.
    assert list(dict.fromkeys(taken.order)) == ["stdout", "RankFinished"]
    assert taken.order[-1] == "RankFinished"
    assert taken.written["stdout"] == b"before\n"
    assert (listener.ended[0].status, relay.returncode) == (7, 7)


def test_a_rank_that_holds_more_than_its_site_allows_is_ended_and_what_it_held_is_told(
    taken: Taken, listener: NetworkListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"most_bytes": 200_000_000, "by": "the profile small"}
    monkeypatch.setenv("JUPYTER_DDL_SCRIPT", json.dumps({"run": "a-run", "memory": limit}))
    # A rank that writes memory while it is watched is ended as it passes the limit.
    holds = "print('before', flush=True)\nheld = b'x' * 250_000_000"
    relay = relayed(listener, "send(RankAlive(0, ''))\nwhile True: time.sleep(1)", holds)
    read_until(listener, lambda: relay.poll() is not None)
    ended = listener.ended[0]
    assert (ended.status, ended.asked, relay.returncode) == (-signal.SIGKILL, False, -signal.SIGKILL)
    assert ended.excess is not None
    assert 250_000_000 < ended.excess.held_bytes < 350_000_000
    assert (ended.excess.most_bytes, ended.excess.by) == (200_000_000, "the profile small")
    assert taken.written["stdout"] == b"before\n"


def test_a_rank_that_stays_below_is_left_alone(
    taken: Taken, listener: NetworkListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"most_bytes": 400_000_000, "by": "the profile small"}
    monkeypatch.setenv("JUPYTER_DDL_SCRIPT", json.dumps({"run": "a-run", "memory": limit}))
    relay = relayed(listener, "send(RankAlive(0, ''))\nheld = b'x' * 250_000_000\ntime.sleep(3)\nprint('well')")
    read_until(listener, lambda: relay.poll() is not None)
    assert (taken.written["stdout"], relay.returncode) == (b"well\n", 0)


def test_a_request_reaches_a_rank_that_listens_late(taken: Taken, listener: NetworkListener) -> None:
    # Before its relay has said anything.
    listener.send(Release("run", "why not"), [0])
    relay = relayed(listener, "print(next(pipes.requests()).reason)")
    read_until(listener, lambda: relay.poll() is not None)
    assert taken.written["stdout"] == b"why not\n"


def test_a_rank_waits_while_its_output_is_not_read(taken: Taken, listener: NetworkListener) -> None:
    relay = relayed(listener, "send(RankAlive(0, ''))\nwhile True: print('x' * 65535)")
    read_until(listener, lambda: bool(taken.events))
    time.sleep(1.5)
    relay.terminate()
    read_until(listener, lambda: relay.poll() is not None)
    while listener.read(0):
        pass
    # Both ends' messages, the pipe, and what the sockets hold.
    assert len(taken.written["stdout"]) < (2 * KEPT_MESSAGES + 200) * 65536


def test_what_a_rank_left_behind_is_ended(taken: Taken, listener: NetworkListener) -> None:
    left = "import subprocess\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)\n"
    relay = relayed(listener, left)
    read_until(listener, lambda: relay.poll() is not None)
    with pytest.raises(ProcessLookupError):
        os.kill(int(taken.written["stdout"]), 0)


def test_a_relay_that_is_asked_ends_a_rank_that_ignores_it(taken: Taken, listener: NetworkListener) -> None:
    relay = relayed(
        listener, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsend(RankAlive(0, ''))\nwhile True: time.sleep(1)"
    )
    read_until(listener, lambda: bool(taken.events))
    relay.terminate()
    read_until(listener, lambda: relay.poll() is not None)
    assert (listener.ended[0].status, listener.ended[0].asked) == (-signal.SIGKILL, True)


def test_a_rank_that_writes_nothing_is_heard_until_it_ends(taken: Taken, listener: NetworkListener) -> None:
    relay = relayed(listener, "send(RankAlive(0, ''))\ntime.sleep(4)")
    read_until(listener, lambda: bool(taken.events))
    quiet_s = []
    while relay.poll() is None:
        listener.read(0.1)
        quiet_s += listener.quiet().values()
    assert 0 < max(quiet_s) < 3
    assert listener.quiet() == {}
    assert not any(taken.written.values())


def test_a_relay_whose_terminal_is_gone_ends_its_rank(taken: Taken) -> None:
    listener = NetworkListener("127.0.0.1", 1, taken, shows_start=True, run=None, clock_offsets_s={})
    with closing(listener):
        relay = relayed(listener, "send(RankAlive(0, str(os.getpid())))\nwhile True: time.sleep(1)")
        read_until(listener, lambda: bool(taken.events))
    assert relay.wait(30) == -signal.SIGTERM


class Peer:
    """Speaks as a relay does."""

    def __init__(self, listener: NetworkListener, key: str | None = None) -> None:
        self.connection = decode(listener.line_for_ranks, Connection)
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.curve_publickey, self.socket.curve_secretkey = zmq.curve_keypair()
        self.socket.curve_serverkey = (key or self.connection.server_key).encode()
        self.socket.connect(self.connection.address)

    def say(self, kind: bytes, content: bytes) -> None:
        self.socket.send_multipart([kind, content])

    def close(self) -> None:
        self.socket.close()
        self._context.term()


@pytest.fixture
def peer(listener: NetworkListener) -> Iterator[Peer]:
    with closing(Peer(listener)) as made:
        yield made


def read_all(listener: NetworkListener) -> None:
    while listener.read(0.3):
        pass


def test_a_peer_without_the_token_is_not_heard(taken: Taken, listener: NetworkListener, peer: Peer) -> None:
    peer.say(STDOUT, b"before it says anything")
    peer.say(HELLO, as_json(Hello("guessed", 0, "here")))
    peer.say(HELLO, as_json(Hello(peer.connection.token, 9, "here")))
    peer.say(STDOUT, b"no")
    read_all(listener)
    assert not taken.order


def test_a_peer_without_the_key_cannot_connect(taken: Taken, listener: NetworkListener) -> None:
    public, _ = zmq.curve_keypair()
    with closing(Peer(listener, public.decode())) as stranger:
        stranger.say(HELLO, as_json(Hello(stranger.connection.token, 0, "here")))
        stranger.say(STDOUT, b"no")
        read_all(listener)
    assert not taken.order


def test_a_rank_has_one_relay_and_odd_messages_are_left_out(
    taken: Taken, listener: NetworkListener, peer: Peer
) -> None:
    peer.say(HELLO, as_json(Hello(peer.connection.token, 0, "here")))
    peer.say(b"gossip", b"no")
    peer.socket.send_multipart([STDOUT, b"too", b"many"])
    with closing(Peer(listener)) as second:
        peer.say(STDOUT, b"yes")
        read_all(listener)
        second.say(HELLO, as_json(Hello(peer.connection.token, 0, "here")))
        second.say(STDOUT, b"no")
        read_all(listener)
    assert taken.written["stdout"] == b"yes"


def test_the_times_of_a_host_whose_clock_is_off_are_corrected(
    taken: Taken, listener: NetworkListener, peer: Peer
) -> None:
    failed = RankFailed("run", 0, "ahead", "ValueError", "no", (), released=False, at_s=1100.0)
    peer.say(HELLO, as_json(Hello(peer.connection.token, 0, "ahead")))
    peer.say(EVENTS, as_json(failed) + b"\n")
    peer.say(END, as_json(RankEnded(0, "ahead", 4711, 1101.0, 1, 0, asked=False)))
    with closing(Peer(listener)) as other:
        other.say(HELLO, as_json(Hello(peer.connection.token, 1, "close")))
        other.say(END, as_json(RankEnded(1, "close", 4711, 1001.0, 1, 0, asked=False)))
        read_all(listener)
    assert [event.at_s for event in taken.events if isinstance(event, RankFailed)] == [1000.0]
    assert [listener.ended[rank].at_s for rank in (0, 1)] == [1001.0, 1001.0]
