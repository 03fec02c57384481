"""Saves a file that every rank saves: a program for one process has one name for it.

Runs on: every rank.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import files

if TYPE_CHECKING:
    from collections.abc import Callable


def save(stock: Callable[..., None], content: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """Replace `torch.save` of a path: the file gets its name when it is whole, whichever rank is the last.

    It is no collective: a program may save on one rank.
    """
    # A link keeps pointing to the file.
    path = Path(f).resolve() if isinstance(f, str | os.PathLike) else None
    if path is None or (path.exists() and not path.is_file()):
        stock(content, f, *args, **kwargs)
        return
    with files.replacing(path, mode=files.SHARED) as file:
        stock(content, file, *args, **kwargs)
