"""Prints what is written today, once a process for each old spelling.

On stderr and not as a Python warning: a program that turns warnings into errors must still run. Every rank prints it;
the views show a line that all ranks print once.
"""

from __future__ import annotations

import sys
import threading

from jupyter_ddl.protocol.old_spellings import ROWS

_SENTENCES = {row.name: row.today for row in ROWS}
_printed: list[str] = []
_lock = threading.Lock()


def say(name: str) -> None:
    """Print the sentence of a row, unless it has been printed.

    Args:
        name: of the row.
    """
    sentence = _SENTENCES[name]
    with _lock:
        if name in _printed:
            return
        _printed.append(name)
    print(f"Old spelling: {sentence}", file=sys.stderr, flush=True)


def printed_rows() -> list[str]:
    """Return the names of the rows whose sentence has been printed, in order."""
    with _lock:
        return list(_printed)
