"""Records what JAX does in a cell with `--timeline`, by JAX's own profiler.

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
from typing import Any

from jupyter_ddl.engine.timelines.cell_profile import CellProfile
from jupyter_ddl.protocol.rank_files import JAX_EPOCH, JAX_PROFILE, JAX_TRACE

MOST_S = 20.0


class JaxProfile(CellProfile):
    """JAX's profiler on one rank. `start` needs JAX's processes, where there are any: it makes JAX's devices."""

    FILE = JAX_TRACE

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._timer: threading.Timer | None = None

    def _is_ready(self) -> bool:
        bridge = sys.modules.get("jax._src.xla_bridge")
        return bridge is not None and bool(bridge.backends_are_initialized())

    def _begin(self) -> None:
        # It is there: it has devices, or its processes have just been made.
        jax: Any = sys.modules["jax"]
        options = jax.profiler.ProfileOptions()
        # Each call of Python's would be an event.
        options.python_tracer_level = 0
        self._folder = tempfile.TemporaryDirectory(prefix=JAX_PROFILE)
        jax.profiler.start_trace(self._folder.name, profiler_options=options)
        # A trace's times begin at 0: this event says when that was.
        with jax.profiler.TraceAnnotation(f"{JAX_EPOCH}{time.time_ns()}"):
            pass
        self._timer = threading.Timer(MOST_S, self.stop)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        jax: Any = sys.modules["jax"]
        jax.profiler.stop_trace()

    def _write(self, path: Path) -> None:
        if self._folder is None:
            return
        for packed in Path(self._folder.name).rglob("*.trace.json.gz"):
            with gzip.open(packed) as trace, path.open("wb") as target:
                shutil.copyfileobj(trace, target)

    def _discard(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
