"""What is sent together leaves in order, in one turn of the socket's thread, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.session import Session as Signer

from jupyter_ddl.engine.emitter import Emitter
from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from collections.abc import Callable


class Thread:
    """Stands for ipykernel's IOPubThread: keeps what it is to do."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.turns: list[Callable[[], None]] = []
        self.sent: list[str] = []

    def schedule(self, do: Callable[[], None]) -> None:
        self.turns.append(do)

    def send_multipart(self, parts: Any) -> None:
        self.schedule(lambda: self._really_send(parts))

    def _really_send(self, parts: Any) -> None:
        if self._fails:
            raise OSError("closed")
        self.sent.append(SIGNER.deserialize(SIGNER.feed_identities(parts)[1])["content"]["text"])


SIGNER = Signer(key=b"secret")


def chunk(text: str) -> OutputChunk:
    return OutputChunk("r", 0, "stdout", text)


def test_what_is_sent_together_leaves_in_one_turn() -> None:
    thread = Thread()
    emit = Emitter(SIGNER, thread)
    emit(chunk("first"))
    with emit.together() as have_left:
        emit(chunk("second"))
        emit(chunk("third"))
        assert len(thread.turns) == 1, "nothing of the block before its end"
    emit(chunk("last"))
    assert len(thread.turns) == 3
    for turn in thread.turns[:2]:
        assert not have_left.is_set()
        turn()
    assert have_left.is_set()
    thread.turns[2]()
    assert thread.sent == ["first", "second", "third", "last"]


def test_what_was_sent_before_an_error_leaves_too() -> None:
    thread = Thread()
    emit = Emitter(SIGNER, thread)

    def cell() -> None:
        with emit.together():
            emit(chunk("said"))
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        cell()
    thread.turns[0]()
    assert thread.sent == ["said"]


def test_a_socket_that_fails_says_that_nothing_has_left() -> None:
    thread = Thread(fails=True)
    emit = Emitter(SIGNER, thread)
    with emit.together() as have_left:
        emit(chunk("lost"))
    with pytest.raises(OSError, match="closed"):
        thread.turns[0]()
    assert not have_left.is_set()
