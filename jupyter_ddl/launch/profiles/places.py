"""Finds the files that profiles are in: the machine's, the environment's, the user's; a later one wins.

A profile's lines of setup run as the user who names it, so a file that another user can change is refused. The
environment may belong to another account than root, the one that installed it: that one is trusted there, since the
user runs its Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.private_folders import problem_of_trust

FOLDER = "jupyter_ddl.d"
_MACHINE = Path("/etc/jupyter")


def machine_folder() -> Path:
    """Return the folder of the machine's profiles, which no user but root can change."""
    return _MACHINE / FOLDER


def profile_folders(prefix: Path | None = None) -> tuple[Path, ...]:
    """Return the folders of profiles, the one that wins last; none need exist.

    Args:
        prefix: of the Python environment; by default this one's.
    """
    from jupyter_core.paths import jupyter_config_dir

    environment = (Path(sys.prefix) if prefix is None else prefix) / "etc/jupyter" / FOLDER
    return tuple(dict.fromkeys((machine_folder(), environment, Path(jupyter_config_dir()) / FOLDER)))


def profile_files(folders: tuple[Path, ...]) -> list[Path]:
    """Return the files of profiles, the one that wins last.

    Raises:
        InvalidInput: a folder is there and cannot be read.
    """
    files: list[Path] = []
    for folder in folders:
        try:
            files += sorted(path for path in folder.iterdir() if path.suffix == ".toml")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InvalidInput(
                "A folder of profiles must be readable.",
                f"{folder} ({error.strerror})",
                "Ask its owner to let you read it, or remove it.",
            ) from error
    return files


def check_trusted(file: Path, prefix: Path | None = None) -> None:
    """Check that only root, this user and, within the environment, its owner can change a file.

    Raises:
        InvalidInput: another user can.
        OSError: it does not exist.
    """
    environment = Path(sys.prefix) if prefix is None else prefix
    owners = {environment.stat().st_uid} if file.is_relative_to(environment) else set[int]()
    problem = problem_of_trust(file, owners)
    if problem is not None:
        what, command = problem
        raise InvalidInput(
            "A profile must be in a file that no other user can change.",
            f"{file}: {what}",
            f"Run: {command}" if command else "Copy what you trust of it into ~/.jupyter/jupyter_ddl.d.",
        )
