"""Asks the Jupyter server to show something in TensorBoard, on a connection of its own.

Runs on: kernel.
"""

from __future__ import annotations

import os
import socket

from jupyter_ddl.errors import DdlError, InvalidInput
from jupyter_ddl.kernel.hub_link.link import check_peer
from jupyter_ddl.paths import HUB_VARIABLE
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import BoardAsked, answer_from_hub

_PATIENCE_S = 60.0
_MAX_LINE_BYTES = 1 << 20


def ask_board(asked: BoardAsked) -> str:
    """Have a folder of logs, or a run, shown; return the address, from the server's root on.

    Raises:
        InvalidInput: no Jupyter server with the hub is there.
        DdlError: the server refuses, with its reason.
    """
    try:
        line = _answer(os.environ[HUB_VARIABLE], as_line(asked))
    except (KeyError, OSError) as error:
        raise InvalidInput(
            "TensorBoard is shown by the Jupyter server that started this kernel, where it has jupyter_ddl.",
            "none that answers" if isinstance(error, OSError) else "a kernel that none started",
            "In a terminal: jupyter ddl tensorboard --export RUN DIR, and tensorboard --logdir DIR.",
        ) from error
    answer = answer_from_hub(line)
    if answer.error is not None:
        raise DdlError(answer.error)
    return str(answer.result)


def _answer(path: str, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(_PATIENCE_S)
        channel.connect(path)
        check_peer(channel)
        channel.sendall(line)
        with channel.makefile("rb") as lines:
            answer = lines.readline(_MAX_LINE_BYTES)
    if not answer:
        raise ConnectionError("the server ended the connection")
    return answer
