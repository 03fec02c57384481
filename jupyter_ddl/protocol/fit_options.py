"""What every `fit` of a cell or a script may be told from outside: `--checkpoint` and `--on-drift`.

Runs on: kernel, terminal and every rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_sets import compact

if TYPE_CHECKING:
    import os
    from argparse import ArgumentParser
    from collections.abc import Sequence

STOP, WARN = "stop", "warn"
ON_DRIFT = (STOP, WARN)


def add_arguments(parser: ArgumentParser) -> None:
    """Add `--checkpoint` and `--on-drift`."""
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="fit saves to DIR after each epoch, and goes on from what is there"
    )
    parser.add_argument(
        "--on-drift",
        default=STOP,
        metavar="|".join(ON_DRIFT),
        help="what fit does where the ranks' weights have come apart (stop)",
    )


def check_on_drift(on_drift: str) -> None:
    """Raise unless this is something that can be done on drift.

    Raises:
        InvalidInput: it is none of the choices.
    """
    if on_drift not in ON_DRIFT:
        raise InvalidInput("On drift fit can stop or warn.", on_drift, "Pass stop, which is the default, or warn.")


def checked_checkpoint(
    folder: str | os.PathLike[str] | None, *, independent: bool, ranks: Sequence[int], world_size: int
) -> str | None:
    """Return the folder's whole path, as the ranks get it; None where nothing is to be saved.

    Args:
        folder: as the user wrote it; from the current folder, or from the home folder with "~".
        independent: each rank trains a model of its own.
        ranks: that run the cell.
        world_size: of all ranks.

    Raises:
        InvalidInput: only some of the ranks, or each for itself, would train; or the folder has no whole path.
    """
    if folder is None:
        return None
    if independent:
        raise InvalidInput(
            "--checkpoint saves the one model that all ranks train.",
            "--checkpoint --independent",
            "Drop one of the two; keras.callbacks.ModelCheckpoint saves a rank's own.",
        )
    if len(ranks) < world_size:
        raise InvalidInput(
            "--checkpoint saves the one model that all ranks train.",
            f"ranks {compact(ranks)} of {world_size}",
            "Drop -r, or --checkpoint.",
        )
    try:
        return str(Path(folder).expanduser().absolute())
    except (OSError, RuntimeError) as error:
        # os.getcwd's; and expanduser's of a user that is not known.
        raise InvalidInput(
            "--checkpoint takes a folder from the working folder, or a whole path.",
            f"{folder} ({error.strerror if isinstance(error, OSError) else error})",
            "Pass a whole path, or go to a folder that is there with `%cd`.",
        ) from error
