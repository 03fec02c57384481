"""Prints once what is written today for an argument of older Horovod.

Runs on: every rank. On stderr, as for old spellings of Keras (`jupyter_ddl.legacy`); the views show a line that all
ranks print once.
"""

from __future__ import annotations

import sys

_told: set[str] = set()


def tell_older_spelling(old: str, today: str) -> None:
    """Print what is written today, the first time that `old` is used in this process.

    Args:
        old: what was written, and works.
        today: what is written today.
    """
    if old not in _told:
        _told.add(old)
        print(f"Old spelling: {old}. Today: {today}.", file=sys.stderr, flush=True)
