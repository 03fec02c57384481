"""Completes and explains names in this rank's namespace, while the main thread is busy.

Runs on: every rank. `ask` is called in ipykernel's control thread, which must be free for the next release: the work is
done in a thread of its own, the newest request first. Where a user's `__dir__` or `__getattr__` never returns, another
thread takes the next request. One key that is pressed asks twice, through the kernel and through the hub: both get the
one answer. Without it the kernel asks IPython's Jedi, and is busy for seconds.
"""

from __future__ import annotations

import threading
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.completer import IPCompleter
from IPython.utils.tokenutil import token_at_cursor

from jupyter_ddl.protocol.rank_answers import LookedUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.event_log import Journal
    from jupyter_ddl.protocol.requests import LookUp

MAX_MATCHES = 500
MAX_CHARACTERS = 100_000
# The asker waits for a second: `cluster.lookups`, in the kernel.
WAITS_S = 1.0
# A thread that takes longer is abandoned, unless it is the last of this many.
HANGS_S = 2.0
MAX_HUNG = 4


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
        # With the time until which its asker waits.
        self._waiting: list[tuple[float, LookUp]] = []
        self._thread: threading.Thread | None = None
        self._began_s: float | None = None
        self._hung: list[threading.Thread] = []

    def ask(self, request: LookUp) -> None:
        """Queue a request and return at once."""
        with self._changed:
            self._waiting.append((time.monotonic() + WAITS_S, request))
            self._changed.notify()
            if self._thread is None or self._leaves_it():
                thread = threading.Thread(target=self._answer, name="jupyter_ddl lookups", daemon=True)
                thread.start()
                self._thread, self._began_s = thread, None

    def _leaves_it(self) -> bool:
        """Return whether another thread is to take the next request; then this one counts as hung."""
        assert self._thread is not None
        self._hung = [thread for thread in self._hung if thread.is_alive()]
        if self._began_s is None or time.monotonic() - self._began_s < HANGS_S or len(self._hung) >= MAX_HUNG:
            return False
        self._hung.append(self._thread)
        return True

    def _answer(self) -> None:
        # Each thread has its own: a completer that hangs cannot be used by another.
        completer = self._new_completer()
        looks: dict[str, Callable[[LookUp], dict[str, Any]]] = {
            "complete": lambda request: _completed(completer, request),
            "inspect": self._inspect,
        }
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._thread is not threading.current_thread())
                if self._thread is not threading.current_thread():
                    return
                request, askers = self._take()
                self._began_s = time.monotonic()
            try:
                content = looks[request.what](request)
            except BaseException:  # noqa: BLE001  a user's own __dir__, __getattr__ or __repr__ may raise SystemExit too
                content = {}
            with self._changed:
                if self._thread is threading.current_thread():
                    self._began_s = None
            for look in askers:
                self._emit(LookedUp(look, self._rank, content))

    def _take(self) -> tuple[LookUp, list[str]]:
        """Take the newest request and all that ask the same, and forget those whose askers wait no longer."""
        _, newest = self._waiting[-1]
        same = [one for _, one in self._waiting if replace(one, look=newest.look) == newest]
        now_s = time.monotonic()
        self._waiting = [(until_s, one) for until_s, one in self._waiting if one not in same and until_s > now_s]
        return newest, [one.look for one in same]

    def _new_completer(self) -> Any:
        # Not the shell's own, which the cell may be using. Jedi reads whole libraries: seconds for TensorFlow.
        names = self._shell.user_ns, self._shell.user_global_ns
        return IPCompleter(
            shell=self._shell, namespace=names[0], global_namespace=names[1], parent=self._shell, use_jedi=False
        )

    def _inspect(self, request: LookUp) -> dict[str, Any]:
        name = token_at_cursor(request.code, request.cursor)
        # As `InteractiveShell.object_inspect_mime`, but for its change of the builtins, which the cell's thread shares.
        info = self._shell._object_find(name)
        if not name or not info.found:
            return {"data": {}, "found": False}
        detail = 1 if request.detail else 0
        answer = self._shell.inspector._get_info(info.obj, name, info=info, detail_level=detail)
        return {"data": {"text/plain": answer["text/plain"][:MAX_CHARACTERS]}, "found": True}


def _completed(completer: Any, request: LookUp) -> dict[str, Any]:
    before = request.code[: request.cursor]
    column = len(before) - (before.rfind("\n") + 1)
    line = before[len(before) - column :] + request.code[request.cursor :].partition("\n")[0]
    try:
        text, matches = completer.complete(line_buffer=line, cursor_pos=column)
    except Warning:
        # IPython's `complete` warns of itself, and the user's cell has made warnings errors. Not before: the filters
        # are the whole process's.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text, matches = completer.complete(line_buffer=line, cursor_pos=column)
    return {"matches": list(matches[:MAX_MATCHES]), "start": request.cursor - len(text), "end": request.cursor}
