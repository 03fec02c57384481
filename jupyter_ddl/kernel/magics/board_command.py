"""Carries out `%ddl tensorboard`: the page of TensorBoard below the cell. Runs on: kernel."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.display import display

from jupyter_ddl import paths
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.hub_link.boards import ask_board
from jupyter_ddl.protocol.hub_messages import BoardAsked
from jupyter_ddl.runs.store import resolve

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_HEIGHT = 800
_FRAME = (
    '<iframe src="{address}" title="TensorBoard" width="100%" height="{height}" style="border: 0"></iframe>'
    '<a href="{address}" target="_blank">TensorBoard of {name}</a>'
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `tensorboard`."""
    parser.add_argument(
        "what",
        nargs="?",
        metavar="RUN|DIR",
        help="a run's id, or a beginning or end of it, or a folder of logs (default: the newest run)",
    )
    parser.add_argument("--height", type=int, default=_HEIGHT, help=f"of the page, in pixels (default: {_HEIGHT})")


def show(arguments: Namespace) -> None:
    """Show the page."""
    asked = asked_for(arguments.what)
    address = ask_board(asked)
    name = asked.run or asked.folder or ""
    frame = _FRAME.format(address=html.escape(address), height=arguments.height, name=html.escape(name))
    shown = {"text/html": frame, "text/plain": f"TensorBoard of {name}: {address}"}
    display(shown, raw=True)  # type: ignore[no-untyped-call]


def asked_for(text: str | None) -> BoardAsked:
    """Return the folder, or the run, that a text means: a folder that is there, else a run.

    Raises:
        InvalidInput: it is neither.
    """
    if text is not None:
        path = Path(text).expanduser().absolute()
        if path.parent != paths.runs_dir() and (path.is_dir() or "/" in text):
            return BoardAsked(folder=str(path))
    try:
        return BoardAsked(run=resolve(text).run)
    except InvalidInput as error:
        if text is None:
            raise
        raise InvalidInput(
            "TensorBoard shows a run, named as %ddl runs lists it, or a folder of logs.",
            f"{text!r}, which is no folder here; as a run: {error.received}",
            "Pass one of the two.",
        ) from error
