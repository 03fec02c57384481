"""A rank whose controller stays away ends."""

from __future__ import annotations

import threading
import time

import pytest
import zmq

from jupyter_ddl.engine.controller_watch import wait_until_away, watch_controller
from jupyter_ddl.protocol.exit_statuses import CONTROLLER_AWAY


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_it_waits_while_heartbeats_come(is_encrypted: bool) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as heart:
        key = None
        if is_encrypted:
            key, secret = zmq.curve_keypair()
            heart.curve_server, heart.curve_secretkey = True, secret
        port = heart.bind_to_random_port("tcp://127.0.0.1")
        waits = threading.Thread(target=wait_until_away, args=(f"tcp://127.0.0.1:{port}", key, 1.5, 0.1))
        waits.start()
        until_s = time.monotonic() + 2.5
        while time.monotonic() < until_s:
            heart.send(b"ping")
            time.sleep(0.05)
        assert waits.is_alive()
        waits.join(30)
        assert not waits.is_alive()


def test_the_rank_ends_with_a_status_that_says_so() -> None:
    ended = threading.Event()
    said: list[int] = []

    def end(status: int, _: str) -> None:
        said.append(status)
        ended.set()

    # No host has this address: it is for documents.
    watch_controller("tcp://192.0.2.1:9", None, end, 0.5)
    assert ended.wait(30)
    assert said == [CONTROLLER_AWAY]


def test_one_on_the_same_host_is_not_watched() -> None:
    before = threading.active_count()
    watch_controller("tcp://127.0.0.1:9", None, lambda *_: None, 0.5)
    assert threading.active_count() == before
