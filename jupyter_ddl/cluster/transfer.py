"""Moves values between the kernel and the ranks, by ipyparallel's own views.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterLost, TransferFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


REGISTERED_S = 120.0
_POLL_S = 0.05


class Transfer:
    """Pushes and pulls variables. Connects on first use: most sessions start without a need.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_size: the number of ranks.
        lost: returns why the ranks are gone; None while they live.
    """

    def __init__(self, connection_file: Path, world_size: int, lost: Callable[[], str | None]) -> None:
        self._connection_file = connection_file
        self._world_size = world_size
        self._lost = lost
        self._client: Any = None
        self._is_closed = False

    def push(self, values: dict[str, Any], ranks: Sequence[int]) -> None:
        """Set variables on ranks, and wait until they are.

        Raises:
            TransferFailed: a value cannot be sent, or not be rebuilt on a rank.
            ClusterLost: the ranks went away meanwhile.
        """
        from ipyparallel.error import CompositeError, RemoteError
        from ipyparallel.serialize import serialize_object

        for name, value in values.items():
            try:
                serialize_object(value)
            except Exception as error:  # a value's own pickling may raise anything
                raise _unsendable(name, value, error) from error
        try:
            self._answer(self._view(ranks).push(values, block=False))
        except (CompositeError, RemoteError) as error:
            names = ", ".join(values)
            raise TransferFailed(
                f"A value must be known to the ranks' Python. Received: {names}, which a rank could not rebuild: "
                f"{error}. Define its class on the ranks too, in a %%distributed cell or a module."
            ) from error

    def pull(self, name: str, ranks: Sequence[int]) -> dict[int, Any]:
        """Return a variable's value on each rank.

        Raises:
            TransferFailed: it is not defined there, or cannot be sent.
            ClusterLost: the ranks went away meanwhile.
        """
        from ipyparallel.error import CompositeError, RemoteError

        try:
            values = self._answer(self._view(ranks).pull(name, block=False))
        except (CompositeError, RemoteError) as error:
            raise TransferFailed(
                f"A variable must be defined on the ranks, and sendable. Received: {name} from ranks {list(ranks)}: "
                f"{error}. Pull an array or a plain value instead."
            ) from error
        return dict(zip(ranks, values, strict=True))

    def close(self) -> None:
        """Close the connection, if there is one. Safe to call twice, and while another thread moves values."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _view(self, ranks: Sequence[int]) -> Any:
        client = self._client
        if client is None:
            from jupyter_ddl.cluster.client import TransferClient

            try:
                client = self._client = TransferClient(str(self._connection_file))
            except OSError as error:
                # The file is gone, or nobody answers.
                raise self._gone(str(error)) from error
            # ipyparallel's hub counts an engine from its second heartbeat on, seconds after it can run cells.
            deadline_s = time.monotonic() + REGISTERED_S
            while len(client.ids) < self._world_size:
                self._check_alive()
                if time.monotonic() > deadline_s:
                    missing = sorted(set(range(self._world_size)) - set(client.ids))
                    raise TransferFailed(
                        f"Every rank must be known to ipyparallel's hub. Received: nothing from ranks {missing} within "
                        f"{REGISTERED_S:g} s. %ddl restart starts new ones."
                    )
                time.sleep(_POLL_S)
        self._check_alive()
        # The engines ask for their rank as their id and end if they get another.
        return client[list(ranks)]

    def _answer(self, result: Any) -> Any:
        """Wait for a request's answer, which ranks that are gone never send."""
        while not result.done():
            self._check_alive()
            result.wait(_POLL_S)
        return result.get()

    def _check_alive(self) -> None:
        if self._is_closed:
            # Maybe before the connection was made.
            self.close()
        if self._is_closed or self._lost() is not None:
            raise self._gone("they are being ended")

    def _gone(self, otherwise: str) -> ClusterLost:
        return ClusterLost(f"Ranks must live until their values have been moved. Received: {self._lost() or otherwise}")


def _unsendable(name: str, value: object, error: Exception) -> TransferFailed:
    return TransferFailed(
        f"A value must be one that pickle can send. Received: {name}, a {type(value).__name__}: {error}. "
        f"Send what it was made from (an array, a path, numbers) and make it again on the ranks."
    )
