"""ipyparallel's client, mended where it would leave a pull without an answer. Imported when a value first moves.

Source: ipyparallel 9.2.0, client/client.py
"""

from __future__ import annotations

from typing import Any

from ipyparallel import Client
from ipyparallel.error import RemoteError


class TransferClient(Client):
    """A client that only pushes and pulls."""

    def _stop_scheduling_tasks(self) -> None:
        """Say nothing: stock warns of farmed tasks, which we have none of, where rank 1 registers before rank 0."""

    def _handle_apply_reply(self, msg: dict[str, Any]) -> None:
        """Make an error of a value that cannot be rebuilt here; stock logs it, and its reader waits for ever."""
        msg_id = msg["parent_header"]["msg_id"]
        future = self._futures.get(msg_id)
        try:
            super()._handle_apply_reply(msg)
        except Exception as error:  # noqa: BLE001  unpickling runs anybody's code
            self.results[msg_id] = RemoteError(type(error).__name__, str(error), "")
            if future is not None:
                future.set_result(self.results[msg_id])
