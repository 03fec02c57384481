"""Defines what the processes of a standby world say to each other, and whether there is one."""

from __future__ import annotations

from jupyter_ddl.errors import InvalidInput

# A rank to the process that holds its world, once it has imported; and that process to the rank, when it is wanted.
READY, GO = b"ready\n", b"go\n"
# The kernel to that process, when the ranks are wanted.
BEGIN = b"begin\n"
# What `--standby` may say.
AUTO, NEVER = CHOICES = ("auto", "never")


def checked_standby(choice: str) -> str:
    """Return a choice of whether ranks may stand by.

    Raises:
        InvalidInput: it is none.
    """
    if choice not in CHOICES:
        raise InvalidInput("Ranks stand by or do not.", f"standby={choice!r}", "Pass standby='auto' or 'never'.")
    return choice
