"""Chooses the path of the hub's socket: in a private folder, and short enough for a socket."""

from __future__ import annotations

import os
import stat
import tempfile
import zlib
from pathlib import Path

from jupyter_ddl import paths
from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.host import process_identity
from jupyter_ddl.host.private_folders import private_folder

# Linux allows 107; a server that finds its name taken appends to it.
_MAX_BYTES = 92


def socket_path(server: str) -> Path:
    """Return where a server's hub listens.

    Args:
        server: what distinguishes it from this user's other servers on this host: its port.

    Raises:
        FolderNotWritable: the folder cannot be made, or is not this user's alone.
    """
    # A home that several hosts, or containers, share has the sockets of all: none must take another's for dead.
    here = " ".join(process_identity.here().values())
    name = f"{zlib.crc32(here.encode()):08x}-{server}"
    path = paths.hub_dir() / name
    if len(os.fsencode(path)) > _MAX_BYTES:
        path = Path(tempfile.gettempdir()) / f"jupyter_ddl-{os.getuid()}" / name
    private_folder(path.parent, variable=paths.RUNTIME_VARIABLE)
    _check_private(path.parent)
    return path


def _check_private(folder: Path) -> None:
    """Raise unless a folder is this user's alone; in the temporary directory another user may have made it."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FolderNotWritable(folder, paths.RUNTIME_VARIABLE, "it is a link, or another user's")
    if found.st_mode & 0o077:
        folder.chmod(0o700)
