"""Says once what is written today for what older Horovod took.

Runs on: every rank. On stderr, as the old spellings of Keras are told (`jupyter_ddl.legacy`); the views show once a
line that all ranks print.
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
