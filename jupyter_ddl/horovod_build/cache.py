"""Keeps built wheels: one folder a key, with the key's parts in a file beside the wheel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.host import files
from jupyter_ddl.host.private_folders import private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.horovod_build.target import Target


@dataclass(frozen=True)
class Cache:
    """The folder `horovod` in jupyter_ddl's cache folder."""

    root: Path

    @classmethod
    def open(cls) -> Cache:
        """Return the user's cache, making its folders.

        Raises:
            FolderNotWritable: they cannot be made or written to.
        """
        cache = cls(paths.cache_dir() / "horovod")
        for folder in (cache.root, cache.sources, cache.logs, cache.wheels):
            private_folder(folder, variable=paths.CACHE_VARIABLE)
        return cache

    @property
    def sources(self) -> Path:
        """The folder of the downloaded sdist."""
        return self.root / "sdist"

    @property
    def logs(self) -> Path:
        """The folder of build logs."""
        return self.root / "logs"

    @property
    def wheels(self) -> Path:
        """The folder of built wheels."""
        return self.root / "wheels"

    def find(self, target: Target) -> Path | None:
        """Return the wheel that was built for the target, or None."""
        return next(iter(sorted((self.wheels / target.key).glob("horovod-*.whl"))), None)

    def keep(self, wheel: Path, target: Target) -> Path:
        """Copy a wheel into the cache and return its place there.

        The copy appears under its name whole or not at all, also where two processes build the same target.
        """
        folder = self.wheels / target.key
        folder.mkdir(exist_ok=True)
        files.replace(folder / "target.json", json.dumps(target.describe(), indent=2, default=str) + "\n")
        kept = folder / wheel.name
        files.replace(kept, wheel.read_bytes())
        return kept
