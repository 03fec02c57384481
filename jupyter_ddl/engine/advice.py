"""What to write instead, where an error of the program's own comes of its running on several ranks.

Runs on: every rank.
"""

from __future__ import annotations

from zipfile import BadZipFile

from jupyter_ddl.engine import run_context

_OF_FILES = (FileExistsError, FileNotFoundError, BadZipFile)
_ATTRIBUTE = "__jupyter_ddl_advice__"


def add(error: BaseException, text: str) -> None:
    """Have an error tell this after its traceback."""
    vars(error)[_ATTRIBUTE] = text


def of(error: BaseException) -> str | None:
    """Return what an error is to tell after its traceback; None where there is nothing to say.

    Args:
        error: what the program raised.
    """
    # Past what the class may have made of the looking up of attributes.
    added: str | None = object.__getattribute__(error, "__dict__").get(_ATTRIBUTE)
    return added or _of_files(error)


def _of_files(error: BaseException) -> str | None:
    """Return what to write where each rank of a program under --auto makes or removes the same files."""
    running = run_context.current()
    if running is None or running.options.auto is None or running.ranks == 1 or not isinstance(error, _OF_FILES):
        return None
    return (
        "If the program makes or removes this file itself: with --auto every rank runs every line, so another rank may "
        "have made or removed it before; what callbacks write is on rank 0 only. Make a folder with "
        "os.makedirs(path, exist_ok=True). What one rank must do for all (extract, download, write, remove, "
        "tempfile.mkdtemp), put in a function: jupyter_ddl.data.make_once(function) calls it on rank 0, and returns on "
        "all ranks what it returns."
    )
