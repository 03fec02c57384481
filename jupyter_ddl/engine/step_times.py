"""Keeps when each training step of this rank began and ended, where a run's timeline is recorded.

Each line is `[begin, end]`, microseconds since the epoch by the clock of the rank's host.

Runs on: every rank; steps end in the main thread.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 1_000


class StepTimes:
    """The step times of one rank, of one run at a time."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._steps: list[tuple[float, float]] = []
        self._pid = 0
        self._observer: Callable[[float, float], None] | None = None

    def observe(self, observer: Callable[[float, float], None]) -> None:
        """Call an observer with the begin and the end of each step, recorded or not; what it raises ends the loop."""
        self._observer = observer

    def begin(self, path: str | None) -> None:
        """Write into a file from here on; nowhere where it is None."""
        self._path, self._steps, self._pid = None if path is None else Path(path), [], os.getpid()

    def ended(self, begin_s: float, end_s: float) -> None:
        """Note a step; nothing where none is recorded, and in a process that the code forked."""
        if self._path is not None and self._pid == os.getpid():
            self._steps.append((begin_s, end_s))
            if len(self._steps) >= _AT_ONCE:
                self._write()
        if self._observer is not None:
            self._observer(begin_s, end_s)

    def end(self) -> None:
        """Write what is left: the run is over on this rank."""
        if self._path is not None and self._pid == os.getpid():
            self._write()
            self._path = None

    def _write(self) -> None:
        assert self._path is not None
        steps, self._steps = self._steps, []
        lines = [json.dumps([round(begin_s * 1e6), round(end_s * 1e6)]) + "\n" for begin_s, end_s in steps]
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            # A full disk must not end the training.
            print(f"WARNING: {self._path} lacks steps: {error.strerror}", file=sys.stderr)
            self._path = None
