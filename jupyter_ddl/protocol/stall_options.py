"""What is done when a cell stalls: its ranks wait for some that do not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

STALL_AFTER_S = 10.0
# Horovod counts whole seconds, and a tensor that it has seen before takes it four of its intervals.
_LEAST_S = 5.0


@dataclass(frozen=True)
class StallOptions:
    """When a stall is told, and what then.

    Attributes:
        after_s: at most so long after the progress stopped, and not before half of it; None for never.
        action: "report" where the ranks are, or "abort" besides: release them, and raise RunStalled.

    Raises:
        InvalidInput: `after_s` is too short.
    """

    after_s: float | None = STALL_AFTER_S
    action: Literal["report", "abort"] = "report"

    def __post_init__(self) -> None:
        """Check them."""
        if self.after_s is not None and not self.after_s >= _LEAST_S:
            raise InvalidInput(
                f"A stall is told after {_LEAST_S:g} seconds at the least.",
                f"{self.after_s:g}",
                "Pass more, or 0 for never.",
            )
        if self.after_s is None and self.action == "abort":
            raise InvalidInput(
                "What is done when a cell stalls needs a time.",
                "--on-stall abort, --stall-after 0",
                "Drop one of them.",
            )


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--stall-after",
        type=float,
        default=STALL_AFTER_S,
        metavar="S",
        help=f"how soon it is told that ranks wait for others (default: {STALL_AFTER_S:g}); 0 for never",
    )
    parser.add_argument(
        "--on-stall", choices=("report", "abort"), default="report", help="abort: then release the ranks, too"
    )


def from_arguments(arguments: Namespace) -> StallOptions:
    """Return what the options say."""
    return StallOptions(arguments.stall_after or None, arguments.on_stall)
