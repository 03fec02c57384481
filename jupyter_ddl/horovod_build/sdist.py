"""Fetches Horovod's sdist through the user's pip, and unpacks it.

The hash is checked twice: by pip before it runs the sdist's setup.py for its metadata, and here before a file from
the cache is used.
"""

from __future__ import annotations

import hashlib
import tarfile
from typing import TYPE_CHECKING

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build.pip import run_pip

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
FILE_NAME = f"horovod-{VERSION}.tar.gz"

_REMEDY = (
    "Check that `pip download horovod` works here (PIP_INDEX_URL, PIP_PROXY and pip.conf apply), "
    f"or put {FILE_NAME} into a folder and name it in PIP_FIND_LINKS."
)


def fetch_sdist(folder: Path, *, log: Path, env: Mapping[str, str]) -> Path:
    """Return the sdist in `folder`, downloaded unless it is there already.

    Args:
        folder: where it is kept.
        log: the file that pip's output is appended to.
        env: an environment whose Python finds setuptools (pip asks setup.py for the sdist's metadata).

    Raises:
        BuildError: pip could not fetch it, or what came has another hash.
    """
    file = folder / FILE_NAME
    if not _is_genuine(file):
        file.unlink(missing_ok=True)
        requirements = folder / "requirements.txt"
        requirements.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
        run_pip(
            [
                *("download", "--require-hashes", "--no-deps", "--no-binary", "horovod", "--no-build-isolation"),
                *("--dest", str(folder), "--requirement", str(requirements)),
            ],
            purpose=f"download Horovod {VERSION} with sha256 {SHA256[:12]}",
            remedy=_REMEDY,
            log=log,
            env=env,
        )
    if not _is_genuine(file):
        raise BuildError(f"{FILE_NAME} must have sha256 {SHA256}.", _describe(file), _REMEDY, log)
    return file


def unpack_sdist(file: Path, folder: Path) -> Path:
    """Unpack a checked sdist into `folder` and return the root of its sources."""
    with tarfile.open(file) as archive:
        # Python 3.10.12 and 3.11.4 brought the filter; 3.12 warns where it is not given.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)  # noqa: S202 - its sha256 was checked
    return folder / FILE_NAME.removesuffix(".tar.gz")


def _is_genuine(file: Path) -> bool:
    return file.is_file() and _sha256(file) == SHA256


def _describe(file: Path) -> str:
    return f"sha256 {_sha256(file)}" if file.is_file() else "no such file"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
