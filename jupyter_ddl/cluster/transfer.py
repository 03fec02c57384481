"""Moves values between the kernel and the ranks, by ipyparallel's own views.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import TransferFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Transfer:
    """Pushes and pulls variables. Connects on first use: most sessions start without a need.

    Args:
        connection_file: ipyparallel's connection file for clients.
        world_size: the number of ranks.
    """

    def __init__(self, connection_file: Path, world_size: int) -> None:
        self._connection_file = connection_file
        self._world_size = world_size
        self._client: Any = None

    def push(self, values: dict[str, Any], ranks: Sequence[int]) -> None:
        """Set variables on ranks, and wait until they are.

        Raises:
            TransferFailed: a value cannot be sent, or not be rebuilt on a rank.
        """
        from ipyparallel.error import CompositeError, RemoteError
        from ipyparallel.serialize import serialize_object

        for name, value in values.items():
            try:
                serialize_object(value)
            except Exception as error:  # a value's own pickling may raise anything
                raise _unsendable(name, value, error) from error
        try:
            self._view(ranks).push(values, block=True)
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
        """
        from ipyparallel.error import CompositeError, RemoteError

        try:
            values = self._view(ranks).pull(name, block=True)
        except (CompositeError, RemoteError) as error:
            raise TransferFailed(
                f"A variable must be defined on the ranks, and sendable. Received: {name} from ranks {list(ranks)}: "
                f"{error}. Pull an array or a plain value instead."
            ) from error
        return dict(zip(ranks, values, strict=True))

    def close(self) -> None:
        """Close the connection, if there is one. Safe to call twice."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _view(self, ranks: Sequence[int]) -> Any:
        if self._client is None:
            from jupyter_ddl.cluster.client import TransferClient

            self._client = TransferClient(str(self._connection_file))
            # ipyparallel's hub counts an engine from its second heartbeat on, seconds after it can run cells.
            self._client.wait_for_engines(self._world_size, interactive=False)
        # The engines ask for their rank as their id and end if they get another.
        return self._client[list(ranks)]


def _unsendable(name: str, value: object, error: Exception) -> TransferFailed:
    return TransferFailed(
        f"A value must be one that pickle can send. Received: {name}, a {type(value).__name__}: {error}. "
        f"Send what it was made from (an array, a path, numbers) and make it again on the ranks."
    )
