"""Sends the parameters of what runs on this rank: those that `fit` was given, and those that the code logs.

Runs on: every rank.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.parameters import MOST, Scalar, checked, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Parameters:
    """The parameters of one rank's current run. Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._send: Callable[[dict[str, Any]], None] | None = None
        self._sent: dict[str, Scalar] = {}
        self._of_user: set[str] = set()
        self._pid = 0

    def begin(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Forget the run before, and send with `send` from here on."""
        with self._lock:
            self._send, self._sent, self._of_user = send, {}, set()
            self._pid = os.getpid()

    def end(self) -> None:
        """Send no more: the run is over on this rank."""
        self._send = None

    def log(self, given: Mapping[str, Any]) -> None:
        """Send what the user's code logs; nothing where no run of ours lasts, and in a process that the code forked.

        Raises:
            InvalidInput: one of them is no parameter, or there are too many.
        """
        parameters = checked(given)
        with self._lock:
            count = len(self._sent.keys() | parameters.keys())
            if count > MOST:
                rule = f"A run has at most {MOST} parameters."
                raise InvalidInput(rule, f"{count:,}", "Log those that tell runs apart.")
            self._of_user |= parameters.keys()
            self._send_new(parameters)

    def log_fit(self, given: Mapping[str, Any]) -> None:
        """Send what a `fit` was given, as far as it is known and the user's code has not logged the same name."""
        known = {name: value for name, value in given.items() if value is not None}
        with self._lock:
            self._send_new({name: value for name, value in readable(known).items() if name not in self._of_user})

    def _send_new(self, parameters: dict[str, Scalar]) -> None:
        """Send what was not sent before, or with another value. Called under the lock."""
        missing = object()
        new = {name: value for name, value in parameters.items() if self._sent.get(name, missing) != value}
        if new and self._send is not None and self._pid == os.getpid():
            self._sent |= new
            self._send(new)
