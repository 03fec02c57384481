"""Passes requests of a page to the debugger of a rank, and waits for its answer.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
from typing import Any

from jupyter_ddl.cluster.answers import Answers
from jupyter_ddl.errors import ClusterError
from jupyter_ddl.protocol.requests import DebugRank

# A rank answers a question for events after 8 s at the latest; pydevd's import takes seconds on a busy host.
ANSWER_S = 20.0


class Debugging(Answers):
    """The debuggers of a cluster's ranks. Safe to use from any thread."""

    def debug(self, rank: int, message: dict[str, Any]) -> dict[str, Any]:
        """Return what a rank's debugger answers to a request of the Debug Adapter Protocol.

        Raises:
            ClusterError: it does not answer.
        """
        answers = self.ask(DebugRank(secrets.token_hex(4), message), [rank], ANSWER_S)
        if not answers:
            raise ClusterError(
                f"A rank's debugger must answer within {ANSWER_S:g} s. Received: nothing from rank {rank}. It may have "
                "ended, be in C code that holds Python's lock, or evaluate what takes long. Look with %ddl stacks."
            )
        answer: dict[str, Any] = answers[rank].answer
        return answer
