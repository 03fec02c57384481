"""Finds the checkpoints from which lost trainings can resume, while new ranks come up.

Ranks die when file systems do: a folder that cannot be read is reported, and one that does not answer delays nothing.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.protocol.checkpoint_folder import newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.runs.run import Run

# New ranks that are ready wait no longer for the search.
WITHIN_S = 5.0


def checkpoint_folders(runs: Sequence[Run]) -> list[str]:
    """Return the checkpoint folders of trainings."""
    folders = (run.folder.record.get("options", {}).get("checkpoint") for run in runs)
    return [folder for folder in folders if folder]


class Offer:
    """The newest checkpoint of each training, looked for in a thread from now on.

    Args:
        folders: the `--checkpoint` of each.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._found: dict[str, str] = {}
        self._folders = tuple(folders)
        self._is_done = threading.Event()
        if folders:
            try:
                Supervised(self._look, "jupyter_ddl checkpoints", self._fail).start()
            except HostUnfit as error:
                self._fail(error)

    def text(self, within_s: float = WITHIN_S) -> str:
        """Return a line for each training that has a checkpoint, with a newline before each.

        Args:
            within_s: how long to wait for file systems that have not answered yet.
        """
        if self._folders and not self._is_done.wait(within_s):
            missing = next(folder for folder in self._folders if folder not in self._found)
            self._found.setdefault(missing, f"\nThe checkpoints in {missing} could not be looked for: no answer yet.")
        return "".join(dict(self._found).values())

    def _look(self) -> None:
        for folder in self._folders:
            try:
                found = newest(folder)
            except OSError as error:
                self._found[folder] = f"\nThe checkpoints in {folder} cannot be read: {error.strerror or error}."
            else:
                self._found[folder] = (
                    ""
                    if found is None
                    else f"\nThe newest checkpoint is {found.path}: run the cell again to resume from there."
                )
        self._is_done.set()

    def _fail(self, error: BaseException) -> None:
        self._found[""] = f"\nThe search for checkpoints failed: {described(error)}."
        self._is_done.set()
