"""Asks a rank for completions and documentation of code that is being written, and waits a second at most.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
from typing import Any

from jupyter_ddl.cluster.answers import Answers
from jupyter_ddl.protocol.requests import LookUp

# A user who types waits no longer; a rank in C code that holds Python's lock does not answer at all.
ANSWER_S = 1.0


class Lookups(Answers):
    """Looks names up on one rank of a cluster, rank 0 by default. Safe to use from any thread."""

    def look_up(self, what: str, code: str, cursor: int, detail: int = 0, rank: int = 0) -> dict[str, Any]:
        """Return what the rank's IPython answers; an empty answer where it does not come in time.

        Args:
            what: "complete" or "inspect".
            code: what is being written.
            cursor: the position in it, in characters.
            detail: of "inspect": 1 for the source too.
            rank: which one is asked.
        """
        answers = self.ask(LookUp(secrets.token_hex(4), what, code, cursor, detail), [rank], ANSWER_S)
        found: dict[str, Any] = answers[rank].content if answers else {}
        return found or (
            {"matches": [], "start": cursor, "end": cursor} if what == "complete" else {"data": {}, "found": False}
        )
