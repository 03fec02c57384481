"""Sends a message to every kernel that uses a cluster, as ranks send their events.

It goes through the controller, as events do, and through no rank, so a rank that does not answer does not delay it.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from jupyter_ddl.cluster.channel import MESSAGE_TYPE, TOPIC, connected, signer
from jupyter_ddl.host import untrusted_files
from jupyter_ddl.host.threads import print_error
from jupyter_ddl.protocol.codec import encode

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.protocol.requests import EndAsked, ReleaseAsked

# The controller answers a new connection within milliseconds.
_TIMEOUT_MS = 1000


def announce(message: ReleaseAsked | EndAsked, engine_connection_file: Path, topic: bytes = TOPIC) -> None:
    """Send a message to the cluster's kernels, this one too, or to its lease; print what goes wrong.

    Args:
        message: what is sent.
        engine_connection_file: ipyparallel's connection file for engines.
        topic: which of them hear it.
    """
    try:
        info = untrusted_files.read_object(engine_connection_file, only_own=True)
        signs = signer(info)
        # A context of our own: closing it waits for no other code's sockets.
        with zmq.Context() as context, connected(context, zmq.XPUB, info, "iopub") as socket:
            socket.linger = _TIMEOUT_MS
            # XPUB and not PUB: it says when the controller listens. What is sent before is dropped.
            if socket.poll(_TIMEOUT_MS):
                signed = signs.msg(MESSAGE_TYPE, content=encode(message))
                socket.send_multipart(signs.serialize(signed, ident=topic))
    except FileNotFoundError:
        return  # the cluster is just being ended
    except (OSError, ValueError, zmq.ZMQError) as error:
        # No more descriptors, for example. This kernel's own runs were released nevertheless.
        print_error(error)
