"""Prints once what is written today for an argument of older Horovod.

Runs on: every rank. On stderr, as for old spellings of Keras (`jupyter_ddl.legacy`); the views show a line that all
ranks print once.
"""

from __future__ import annotations

import sys

from jupyter_ddl.engine import rank_state


class _Told:
    """The older spellings that this rank has used."""

    def __init__(self) -> None:
        self.spellings: set[str] = set()


def tell_older_spelling(old: str, today: str) -> None:
    """Print what is written today, the first time that `old` is used in this process.

    Args:
        old: what was written, and works.
        today: what is written today.
    """
    told = rank_state.here().part(_Told).spellings
    if old not in told:
        told.add(old)
        print(f"Old spelling: {old}. Today: {today}.", file=sys.stderr, flush=True)
