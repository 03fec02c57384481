"""Keeps a process to one cluster of TensorFlow's: it cannot leave one, and waits for ever in a second one.

Runs on: every rank.
"""

from __future__ import annotations

import os

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import STRATEGY_VARIABLE


def enter(strategy: str) -> None:
    """Note that this process is in a strategy's cluster from here on.

    Raises:
        InvalidInput: it is in another one's.
    """
    # In the environment, which is the process's own.
    other = os.environ.setdefault(STRATEGY_VARIABLE, strategy)
    if other != strategy:
        raise InvalidInput(
            "A process is in one cluster of TensorFlow's for all its life.",
            f"{strategy} after {other}",
            "Start new ranks: %ddl restart",
        )
