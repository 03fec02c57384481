"""What `jupyter ddl tune` tries in every exchange of this rank.

It imports nothing, so that it can be set before the program imports Keras or Horovod. Runs on: every rank.
"""

from __future__ import annotations

from typing import Any


class Tried:
    """What every exchange of this rank has in place of what its program says: fields of `Exchange`."""

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
