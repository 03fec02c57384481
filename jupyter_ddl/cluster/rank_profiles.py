"""Has ranks sample their stacks for some seconds, and waits for what they send.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.answers import Answers
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_answers import RankProfile
from jupyter_ddl.protocol.rank_sets import named
from jupyter_ddl.protocol.requests import EndProfile, ProfileRank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.protocol.transport import RankTransport

SECONDS, HZ = 10.0, 50.0
MOST_SECONDS, MOST_HZ = 60.0, 200.0
# What is sent is some hundred kilobytes of each rank, and C code may keep a rank's Python from sending it for a while.
LATE_S = 10.0


class Profiles(Answers):
    """Takes profiles of ranks. Safe to use from any thread.

    Args:
        ranks: rank -> what it reported of itself.
        transport: asks them; `handle` gets the events.
    """

    def __init__(self, ranks: Mapping[int, RankReady], transport: RankTransport) -> None:
        super().__init__(transport)
        self._ranks = ranks

    def take(self, ranks: Iterable[int], seconds: float = SECONDS, hz: float = HZ) -> dict[int, RankProfile]:
        """Return where each rank's main thread was for some seconds from now on. An interrupt ends it on the ranks too.

        Args:
            ranks: which.
            seconds: for how long.
            hz: how many samples a second.

        Raises:
            InvalidInput: the time or the rate is out of bounds, or another profile is being taken of a rank.
        """
        _check("seconds", seconds, MOST_SECONDS)
        _check("hz", hz, MOST_HZ)
        wanted, request = sorted(ranks), ProfileRank(secrets.token_hex(4), seconds, hz)
        answers: dict[int, RankProfile] = {}
        try:
            answers = self.ask(request, wanted, seconds + LATE_S, lambda answer: answer.problem is not None)
        finally:
            rest = [rank for rank in wanted if rank not in answers]
            if rest:
                self._transport.send(EndProfile(request.look), rest, now=True)
        refused = {rank: answer.problem for rank, answer in answers.items() if answer.problem is not None}
        if refused:
            raise InvalidInput(
                "One profile at a time is taken of a rank.",
                f"{named(refused)}: {next(iter(refused.values()))}",
                "Wait for its end, or profile other ranks.",
            )
        silent = f"it did not answer within {LATE_S:g} s: C code may keep Python's lock, or its process is stopped"
        return {
            rank: answers.get(rank) or RankProfile(request.look, rank, self._ranks[rank].host, problem=silent)
            for rank in wanted
        }


def _check(name: str, value: float, most: float) -> None:
    # A NaN too.
    if not 0 < value <= most:
        raise InvalidInput(f"{name} of a profile must be above 0, and at most {most:g}.", f"{value:g}", "Pass less.")
