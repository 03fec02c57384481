"""Defines what the job of an exported notebook tells the notebook's kernel, in a variable of its environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class ExportedJob:
    """What an exported notebook runs in.

    Attributes:
        ranks: that the job has room for.
        hostfile: where its hosts are listed; None where its scheduler says them.
        suffix: what makes the name of a cluster, and so of its runs, this execution's own.
    """

    type: ClassVar[str] = "exported_job"
    ranks: int
    suffix: str
    hostfile: str | None = None
