"""Makes a batch job of a notebook of this server's, as `jupyter ddl export` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import DdlError
from jupyter_ddl.export.asking import export
from jupyter_ddl.server.requests import MAX_TEXT_CHARACTERS, HubHandler, quoted

_TEXTS = ("time", "partition")
_NUMBERS = ("nodes", "ntasks_per_node")


class ExportHandler(HubHandler):
    """POST export {notebook, kind, nodes, ntasks_per_node, ranks, time, partition, profile} -> {text}."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Write the job into a new folder beside the notebook; 400 with the reason where it cannot be."""
        asked = self.get_json_body()
        if not isinstance(asked, dict) or not isinstance(asked.get("notebook"), str):
            raise HTTPError(400, "An export names a notebook. Received: a request without one. Name it.")
        given = {name: _text(asked, name) for name in _TEXTS} | {name: _number(asked, name) for name in _NUMBERS}
        ranks, profile = _number(asked, "ranks"), _text(asked, "profile")
        notebook, kind = self._file(asked["notebook"]), str(asked.get("kind"))
        try:
            text = await self.in_thread(
                lambda: export(notebook, kind, given, ranks=ranks, profile=profile, is_numbered=True)
            )
        except DdlError as error:
            raise HTTPError(400, str(error)) from error
        self.answer({"text": text})

    def _file(self, name: str) -> Path:
        """Return a notebook's file, by its name among the server's."""
        folder = getattr(self.contents_manager, "root_dir", None)
        if folder is None:
            raise HTTPError(400, "A notebook to export is a file. Received: one of a server that keeps no files.")
        root = Path(folder).resolve()
        file = (root / name).resolve()
        if not file.is_relative_to(root):
            raise HTTPError(
                400, f"A notebook to export is among the server's. Received: {quoted(name)}. Open it there."
            )
        return file


def _text(asked: dict[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is None or (isinstance(value, str) and len(value) <= MAX_TEXT_CHARACTERS and value.isprintable()):
        return value
    raise HTTPError(400, f"{name} is a short text. Received: {quoted(str(value))}. Write another.")


def _number(asked: dict[str, Any], name: str) -> int | None:
    value = asked.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000):
        return value
    raise HTTPError(400, f"{name} is a number of at least 1. Received: {quoted(str(value))}. Write another.")
