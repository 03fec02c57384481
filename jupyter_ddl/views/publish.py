"""Publishes a view's outputs to Jupyter's front ends."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell


class Publisher(Protocol):
    """Puts outputs under a cell, and changes them afterwards."""

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Show a new output, after all earlier ones."""

    def update(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Replace every output of that id, in place."""


class Display:
    """One output under a cell, by its id.

    Attributes:
        is_published: it is there.
    """

    def __init__(self, display_id: str) -> None:
        self.is_published = False
        self._id = display_id

    def send(self, publisher: Publisher, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Show this in the output, which comes after all others if it is not there yet."""
        (publisher.update if self.is_published else publisher.publish)(data, metadata, self._id)
        self.is_published = True


class JupyterPublisher:
    """Publishes under the cell that runs when it is made, even from another thread and after that cell has ended.

    Runs on: kernel.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cell: dict[str, Any] = shell.get_parent()  # type: ignore[attr-defined]

    def publish(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Show a new output, after all earlier ones."""
        self._send(data, metadata, display_id, update=False)

    def update(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str) -> None:
        """Replace every output of that id, in place."""
        self._send(data, metadata, display_id, update=True)

    def _send(self, data: dict[str, Any], metadata: dict[str, Any], display_id: str, *, update: bool) -> None:
        # Looked up each time: %%capture and output widgets put another publisher there.
        with self._under_the_cell(self._shell.display_pub) as display_pub:
            display_pub.publish(sendable(data), sendable(metadata), transient={"display_id": display_id}, update=update)

    @contextmanager
    def _under_the_cell(self, display_pub: Any) -> Iterator[Any]:
        """Have a publisher whose outputs are the cell's, though another cell runs."""
        if self._cell and hasattr(display_pub, "set_thread_parent"):
            token = display_pub.set_thread_parent(self._cell)
            try:
                yield display_pub
            finally:
                display_pub.reset_thread_parent(token)
        elif self._cell and hasattr(display_pub, "set_parent"):
            # ipykernel 6 has one cell for all threads.
            own = copy(display_pub)
            own.set_parent(self._cell)
            yield own
        else:
            yield display_pub


def sendable(value: Any) -> Any:
    r"""Return a display's data with a question mark for each character that UTF-8 cannot encode.

    A rank's exception, or a file's name, may hold half of a surrogate pair, and jupyter_client's packer raises on it.
    Source: jupyter_client 8.10, session.py, json_packer

    Example:
        >>> sendable({"text/plain": "caf\udce9"})
        {'text/plain': 'caf?'}
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value
