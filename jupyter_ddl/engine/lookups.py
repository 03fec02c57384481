"""Completes and explains names of this rank's user, while the main thread does whatever it does.

Runs on: every rank. `ask` is called in ipykernel's control thread, which must be free for the next release: the work is
done in a thread of its own, the newest request first.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from IPython.core.completer import IPCompleter
from IPython.utils.tokenutil import token_at_cursor

from jupyter_ddl.events import LookedUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.journal import Journal
    from jupyter_ddl.requests import LookUp

MAX_MATCHES = 500
MAX_CHARACTERS = 100_000


class Lookups:
    """What one rank's IPython knows of code.

    Args:
        shell: the rank's.
        rank: its number.
        emit: sends the answers.
    """

    def __init__(self, shell: Any, rank: int, emit: Journal) -> None:
        self._shell = shell
        self._rank = rank
        self._emit = emit
        self._changed = threading.Condition()
        # What is typed on makes an older request of the same kind worthless.
        self._newest: dict[str, LookUp] = {}
        self._thread: threading.Thread | None = None
        self._completer: Any = None

    def ask(self, request: LookUp) -> None:
        """Have a request answered soon; at once return."""
        with self._changed:
            self._newest[request.what] = request
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._answer, name="jupyter_ddl lookups", daemon=True)
                self._thread.start()

    def _answer(self) -> None:
        looks: dict[str, Callable[[LookUp], dict[str, Any]]] = {"complete": self._complete, "inspect": self._inspect}
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest)
                what, request = self._newest.popitem()
            try:
                content = looks[what](request)
            except Exception:  # noqa: BLE001  a user's own __dir__, __getattr__ or __repr__ may raise anything
                content = {}
            self._emit(LookedUp(request.look, self._rank, content))

    def _complete(self, request: LookUp) -> dict[str, Any]:
        if self._completer is None:
            # Not the shell's own, which the cell may be using. Jedi reads whole libraries: seconds for TensorFlow.
            names = self._shell.user_ns, self._shell.user_global_ns
            self._completer = IPCompleter(
                shell=self._shell, namespace=names[0], global_namespace=names[1], parent=self._shell, use_jedi=False
            )
        before = request.code[: request.cursor]
        column = len(before) - (before.rfind("\n") + 1)
        line = before[len(before) - column :] + request.code[request.cursor :].partition("\n")[0]
        text, matches = self._completer.complete(line_buffer=line, cursor_pos=column)
        return {"matches": list(matches[:MAX_MATCHES]), "start": request.cursor - len(text), "end": request.cursor}

    def _inspect(self, request: LookUp) -> dict[str, Any]:
        name = token_at_cursor(request.code, request.cursor)
        # As `InteractiveShell.object_inspect_mime`, but for its change of the builtins, which the cell's thread shares.
        info = self._shell._object_find(name)
        if not name or not info.found:
            return {"data": {}, "found": False}
        detail = 1 if request.detail else 0
        told = self._shell.inspector._get_info(info.obj, name, info=info, detail_level=detail)
        return {"data": {"text/plain": told["text/plain"][:MAX_CHARACTERS]}, "found": True}
