"""Keeps what TensorFlow's profiler records in a cell with `--timeline`.

The program starts and stops the profiler, as it would elsewhere: `tf.profiler.experimental.Profile`, or `profile_batch`
of Keras's TensorBoard callback. What it writes for TensorBoard stays where the program wants it.

Runs on: every rank. Nothing here imports TensorFlow before the program has.
"""

from __future__ import annotations

import json
import time
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.timelines.cell_profile import CellTrace
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.protocol.rank_files import TENSORFLOW_TRACE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from typing_extensions import Self

    from jupyter_ddl.engine.cells import Cells
    from jupyter_ddl.engine.world import World

# What tf.profiler.experimental calls, and what TensorBoard's callback calls through it.
_SESSIONS = "tensorflow.python.profiler.internal._pywrap_profiler"
# The plane that says when the profile began; the times of all others count from there.
# Source: tsl/profiler/utils/xplane_schema.h, kTaskEnvPlaneName, StatType::kEnvProfileStartTime
_TASK, _BEGAN = "Task Environment", "profile_start_time"
# Notes of its thread pools, hundreds a step, which say nothing of kernels.
_OF_POOLS = "ThreadpoolListener::"
_EVENTS = 5_000


class TensorflowProfile(CellTrace):
    """What TensorFlow's profiler has written on one rank; of several profiles in a cell the last."""

    FILE = TENSORFLOW_TRACE

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self._log_dir: Path | None = None
        self._written: Path | None = None
        self._began_ns = 0

    @classmethod
    def of(cls, world: World, cells: Cells) -> Self:
        """Return that of a rank that starts."""
        trace = super().of(world, cells)
        import_hooks.when_imported(_SESSIONS, trace.follow)
        return trace

    def follow(self, module: ModuleType) -> None:
        """Note where profiles are written."""
        patch(module.ProfilerSession, "start", self._start, Layer.RANK)
        patch(module.ProfilerSession, "export_to_tb", self._export, Layer.RANK)

    def _start(self, stock: Any, session: Any, log_dir: Any, *args: Any, **kwargs: Any) -> Any:
        self._log_dir = Path(str(log_dir))
        self._began_ns = time.time_ns()
        return stock(session, log_dir, *args, **kwargs)

    def _export(self, stock: Any, session: Any) -> Any:
        before = self._profiles()
        result = stock(session)
        self._written = max(self._profiles() - before, default=None)
        return result

    def _profiles(self) -> set[Path]:
        # One folder for each profile, named by its second, and a file for each host.
        return set() if self._log_dir is None else set(self._log_dir.glob("plugins/profile/*/*.xplane.pb"))

    def _write(self, path: Path) -> None:
        if self._written is None:
            return
        events = _events(self._written.read_bytes(), self._began_ns)
        separator = '{"traceEvents": ['
        with path.open("w", encoding="utf-8") as file:
            while piece := list(islice(events, _EVENTS)):
                file.write(separator + ",\n".join(map(json.dumps, piece)))
                separator = ",\n"
            file.write("]}" if separator == ",\n" else separator + "]}")

    def _discard(self) -> None:
        self._written = None


def _events(packed: bytes, began_ns: int) -> Iterator[dict[str, Any]]:
    """Yield a profile's events, as chrome://tracing has them; their times are microseconds since the epoch.

    Args:
        packed: the profile.
        began_ns: when it was started, for TensorFlow 2.16, whose profiles do not say it.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(packed)
    began_ns = max(
        (began for plane in space.planes if plane.name == _TASK for began in _began(plane)), default=began_ns
    )
    lines = chain.from_iterable(((plane, line) for line in plane.lines) for plane in space.planes)
    for plane, line in lines:
        for event in line.events:
            kind = plane.event_metadata[event.metadata_id]
            name = kind.display_name or kind.name
            if event.duration_ps and not name.startswith(_OF_POOLS):
                yield {
                    "ph": "X",
                    "name": name,
                    "ts": (began_ns + line.timestamp_ns) / 1e3 + event.offset_ps / 1e6,
                    "dur": event.duration_ps / 1e6,
                    "tid": line.display_name or line.name,
                }


def _began(plane: Any) -> Iterator[int]:
    return (stat.uint64_value for stat in plane.stats if plane.stat_metadata[stat.metadata_id].name == _BEGAN)
