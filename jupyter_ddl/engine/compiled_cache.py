"""Keeps what torch.compile has compiled for later sessions: the ranks' temporary folder is gone with them.

torch would keep it in a folder of a known name in /tmp, and run what it finds there. This one is the user's alone.

Runs on: every rank.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.rank_files import WORLD_FOLDER

_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def keep_compiled() -> Path | None:
    """Have torch keep it beside the ranks' temporary folder; return where, or None where that stays as it is.

    It stays where the user has chosen a place, where the ranks have no temporary folder of their own, and where
    another user can write to the place.
    """
    temporary = Path(tempfile.gettempdir())
    if _VARIABLE in os.environ or not temporary.name.startswith(WORLD_FOLDER):
        return None
    own = temporary.with_name(f"{WORLD_FOLDER}{os.geteuid()}")
    try:
        kept = private_folder(own / "torchinductor", variable=_VARIABLE)
    except FolderNotWritable:
        return None
    os.environ[_VARIABLE] = str(kept)
    return kept
