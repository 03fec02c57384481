"""Records what JAX does in a cell with `--timeline`, by JAX's own profiler, into the run's folder.

The profiler keeps all of it in memory, so it records the first seconds only.

Runs on: every rank. Nothing here imports JAX.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.rank_files import JAX_EPOCH, JAX_TRACE, rank_file

if TYPE_CHECKING:
    from jupyter_ddl.engine.cells import Cells
    from jupyter_ddl.engine.collectives.library import Turn
    from jupyter_ddl.engine.world import World

MOST_S = 20.0


class JaxProfile:
    """The profiler of one rank, a `Library` of the engine's.

    Args:
        rank: its number.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._path: Path | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._timer: threading.Timer | None = None
        self._is_running = False
        self._lock = threading.Lock()

    @classmethod
    def of(cls, world: World, cells: Cells) -> JaxProfile:
        """Return that of a rank that starts."""
        profile = cls(world.rank)
        # Of a script too, which ends as no cell does.
        cells.conclude_with(profile.end_cell)
        return profile

    def begin_cell(self, turn: Turn) -> None:
        """Record the cell, where it is asked for and JAX has its devices."""
        # One that raised: what it recorded is lost, since a rank that writes then keeps others waiting.
        self._stop()
        self._discard()
        own = rank_file(self._rank, JAX_TRACE)
        self._path = None if turn.timeline is None else Path(turn.timeline).with_name(own)
        bridge = sys.modules.get("jax._src.xla_bridge")
        if bridge is not None and bridge.backends_are_initialized():
            self.start()

    def start(self) -> None:
        """Begin, where a cell asks for it: JAX makes its devices for it, so its processes must be there."""
        if self._path is None or self._is_running:
            return
        # It is there: it has devices, or its processes have just been made.
        jax: Any = sys.modules["jax"]
        options = jax.profiler.ProfileOptions()
        # Each call of Python's would be an event.
        options.python_tracer_level = 0
        self._folder = tempfile.TemporaryDirectory(prefix="jupyter_ddl-jax-")
        jax.profiler.start_trace(self._folder.name, profiler_options=options)
        self._is_running = True
        # A trace's times begin at 0: this event says when that was.
        with jax.profiler.TraceAnnotation(f"{JAX_EPOCH}{time.time_ns()}"):
            pass
        self._timer = threading.Timer(MOST_S, self._stop)
        self._timer.daemon = True
        self._timer.start()

    def end_cell(self) -> None:
        """Write what was recorded."""
        self._stop()
        if self._folder is not None and self._path is not None:
            try:
                for packed in Path(self._folder.name).rglob("*.trace.json.gz"):
                    with gzip.open(packed) as trace, self._path.open("wb") as target:
                        shutil.copyfileobj(trace, target)
            except OSError as error:
                # A full disk must not end the training.
                print(f"WARNING: {self._path} is not complete: {error}", file=sys.stderr)
        self._discard()

    def raised(self) -> None:
        """Do nothing: other ranks may wait for this one."""

    def release(self) -> None:
        """Do nothing: no rank waits here."""

    def was_ended_elsewhere(self, text: str) -> bool:  # noqa: ARG002  as a library is asked
        """Return that no error is of the profiler's."""
        return False

    def entered(self) -> int | None:
        """Return that collectives are not counted here."""
        return None

    def _stop(self) -> None:
        with self._lock:
            if not self._is_running:
                return
            self._is_running = False
            assert self._timer is not None
            self._timer.cancel()
            jax: Any = sys.modules["jax"]
            jax.profiler.stop_trace()

    def _discard(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
