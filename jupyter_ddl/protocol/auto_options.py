"""What `--auto` may be told, wherever it is told: in a cell, on the command line, or in Python.

Runs on: kernel, terminal and every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

PER_RANK, GLOBAL = "per-rank", "global"
BATCHES = (PER_RANK, GLOBAL)
LINEAR, SQRT, NONE = "linear", "sqrt", "none"
SCALINGS = (LINEAR, SQRT, NONE)


@dataclass(frozen=True)
class AutoOptions:
    """How a program for one process is distributed.

    Attributes:
        batch: whose the batch size in the code is: "per-rank", each rank's; or "global", that of all ranks together.
        scale_lr: how the learning rate grows with the batch: "linear", "sqrt" or "none". None leaves it to the
            optimizer: linear for SGD, sqrt for adaptive ones; none where the batch is global, and so no larger.
        warmup_epochs: over how many epochs it grows; None for 3, or a quarter of the epochs where that is less.

    Raises:
        InvalidInput: a value is none of these.
    """

    batch: str = PER_RANK
    scale_lr: str | None = None
    warmup_epochs: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.batch not in BATCHES:
            raise InvalidInput("--batch must be per-rank or global.", self.batch, "Leave it out for per-rank.")
        if self.scale_lr not in (None, *SCALINGS):
            raise InvalidInput(
                "--scale-lr must be linear, sqrt or none.", self.scale_lr, "Leave it out for what fits the optimizer."
            )
        if self.warmup_epochs is not None and not self.warmup_epochs >= 0:
            raise InvalidInput(
                "--warmup-epochs must be at least 0.", f"{self.warmup_epochs:g}", "Pass 0 for no warm-up."
            )
        if self.batch == GLOBAL and self.scale_lr in (LINEAR, SQRT):
            raise InvalidInput(
                "The learning rate grows with the batch, and with --batch global that is the code's own.",
                f"--batch global --scale-lr {self.scale_lr}",
                "Drop one of the two.",
            )


def add_arguments(parser: ArgumentParser) -> None:
    """Add `--auto` and what belongs to it."""
    parser.add_argument("--auto", action="store_true", help="distribute a Keras program that was written for one GPU")
    parser.add_argument(
        "--batch", metavar="|".join(BATCHES), help="with --auto: whose the batch size in the code is (per-rank)"
    )
    parser.add_argument(
        "--scale-lr", metavar="|".join(SCALINGS), help="with --auto: how the learning rate grows with the batch"
    )
    parser.add_argument("--warmup-epochs", type=float, metavar="E", help="with --auto: over how many epochs it grows")
    parser.add_argument(
        "--explain", action="store_true", help="with --auto: run nothing; show the plan, and the program it stands for"
    )


def from_arguments(arguments: Namespace) -> AutoOptions | None:
    """Return what the command line says of `--auto`; None where it does not ask for it.

    Raises:
        InvalidInput: a value is wrong, or given without --auto; --auto and --independent exclude each other.
    """
    values: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in ("batch", "scale_lr", "warmup_epochs")
        if getattr(arguments, name) is not None
    }
    if not arguments.auto:
        given = [f"--{name.replace('_', '-')}" for name in values] + ["--explain"] * arguments.explain
        if given:
            raise InvalidInput(f"{given[0]} belongs to --auto.", " ".join(given), "Add --auto, or drop it.")
        return None
    if arguments.independent:
        raise InvalidInput(
            "--auto trains one model on all ranks.",
            "--auto --independent",
            "Drop --auto for a model of its own on each rank.",
        )
    return AutoOptions(**values)
