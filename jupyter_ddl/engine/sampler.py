"""Sends a MetricsSample once a second, or as often as was asked for, while a cell runs.

One thread serves all cells, and no cell wakes it that is over before it is due: to start a thread and read the system's
counters costs more than a short cell.

Runs on: every rank, in a thread of its own.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.engine.error_text import bounded, text_of
from jupyter_ddl.engine.gpu import Gpu
from jupyter_ddl.host.link_rates import HostLinks
from jupyter_ddl.protocol.events import EpochEnded, MetricsSample, OutputChunk, ParametersLogged
from jupyter_ddl.protocol.readings import GpuReading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_ddl.engine.meter import Meter
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.readings import TrainingReading

# A driver that hangs must not delay the cell's end.
_END_S = 2.0
# From when on the system's counters are read, whose growth is a rate.
_RATES_FROM_S = 0.1


@dataclass(eq=False)
class _Turn:
    """The samples of one run.

    Attributes:
        every_s: how often, in seconds.
        began_s: when it began, in seconds of `monotonic`.
        due_s: when the thread is to look next, likewise.
        has_rates: the counters were read once.
    """

    every_s: float
    began_s: float
    due_s: float
    has_rates: bool = False


class Sampler:
    """Samples this rank, one run at a time.

    Args:
        rank: this rank.
        meter: what the training on this rank reports.
        emit: sends an event.
        links: this host's network, on its first rank; None on the others.
    """

    def __init__(
        self,
        rank: int,
        meter: Meter,
        emit: Callable[[MetricsSample | EpochEnded | ParametersLogged | OutputChunk], None],
        links: HostLinks | None = None,
    ) -> None:
        self._rank = rank
        self._meter = meter
        self._emit = emit
        self._links = links
        self._process = psutil.Process()
        self._gpu: Gpu | None = None
        self._knows_gpu = False
        self._run = ""
        self._is_told = False
        self._cpu_s = self._cpu_at_s = 0.0
        self._thread: threading.Thread | None = None
        self._turn: _Turn | None = None
        self._changed = threading.Condition()
        # When the thread wakes by itself.
        self._wakes_s = math.inf
        # Held while the thread looks.
        self._looking = threading.Lock()

    def begin(self, run: str, every_s: float | None, steps: str | None = None) -> None:
        """Sample from here on, until `end`.

        Args:
            run: whose figures they are.
            every_s: how often, in seconds; None for not at all.
            steps: the file that each step's times go to; None for none.
        """
        self._meter.begin()
        self._meter.step_times.begin(steps)
        self._run, self._is_told = run, False
        self._meter.parameters.begin(lambda given: self._emit(ParametersLogged(run, self._rank, given)))
        if every_s is None:
            return
        self._meter.epochs.begin(self._send_epoch)
        began_s = monotonic()
        self._cpu_s, self._cpu_at_s = process_time(), began_s
        try:
            self._start()
        except Exception as error:  # noqa: BLE001  an earlier cell has left no room for a thread: this one has no figures
            self._tell(error)
            return
        with self._changed:
            self._turn = _Turn(every_s, began_s, began_s + min(every_s, _RATES_FROM_S))
            if self._turn.due_s < self._wakes_s:
                self._changed.notify()

    def end(self) -> None:
        """Send what the training did since the last sample, and stop. Safe to call twice."""
        self._meter.parameters.end()
        self._meter.epochs.end()
        self._meter.step_times.end()
        with self._changed:
            turn, self._turn = self._turn, None
        if turn is None:
            return
        hangs = not self._looking.acquire(timeout=_END_S)
        if not hangs:
            self._looking.release()
        try:
            reading = self._meter.read()
        except Exception as error:  # noqa: BLE001  as in _send
            self._tell(error)
            return
        if reading is not None:
            self._send(reading, asks_driver=not hangs, has_rates=turn.has_rates and not hangs)

    def _start(self) -> None:
        """Start the thread, where it does not run: an earlier cell may have replaced what it waits with."""
        if self._thread is None or not self._thread.is_alive():
            self._wakes_s = math.inf
            thread = threading.Thread(target=self._serve, name="jupyter_ddl sampler", daemon=True)
            thread.start()
            self._thread = thread

    def _serve(self) -> None:
        while True:
            turn = self._due()
            with self._looking:
                if turn is self._turn:
                    self._look(turn)

    def _due(self) -> _Turn:
        """Wait until a run's samples are due, and return them."""
        with self._changed:
            while True:
                turn, now_s = self._turn, monotonic()
                if turn is not None and turn.due_s <= now_s:
                    return turn
                self._wakes_s = math.inf if turn is None else turn.due_s
                self._changed.wait(None if turn is None else turn.due_s - now_s)

    def _look(self, turn: _Turn) -> None:
        now_s = monotonic()
        if not turn.has_rates:
            turn.has_rates, turn.due_s = True, max(turn.began_s + turn.every_s, now_s + turn.every_s / 2)
            # Of one call alone nothing is known; where it fails, the next one reports it.
            with suppress(Exception):
                self._read_links()
                self._read_gpu()
            return
        turn.due_s = now_s + turn.every_s
        try:
            self._send(self._meter.read())
        except Exception as error:  # noqa: BLE001  as in _send
            self._tell(error)

    def _send(self, reading: TrainingReading | None, *, asks_driver: bool = True, has_rates: bool = True) -> None:
        try:
            self._emit(self._sample(reading, asks_driver=asks_driver, has_rates=has_rates))
        except OSError:
            # A process that can open no more files has no figures; its cell continues, and ends.
            return
        except Exception as error:  # noqa: BLE001  figures are the user's; whatever they are, the cell must come to its end
            self._tell(error)

    def _send_epoch(self, epoch: int, step: int, at_s: float, metrics: Mapping[str, float], *, is_last: bool) -> None:
        named = {bounded(name): value for name, value in metrics.items()}
        try:
            self._emit(EpochEnded(self._run, self._rank, at_s, epoch, step, named, is_last=is_last))
        except OSError:
            # As in _send.
            return
        except Exception as error:  # noqa: BLE001  as in _send
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        """Report, once a run, that figures could not be sent; the cell does not fail for it."""
        if not self._is_told:
            self._is_told = True
            text = f"jupyter_ddl: figures of rank {self._rank} are missing: {type(error).__name__}: {text_of(error)}\n"
            # Then it cannot be reported either.
            with suppress(Exception):
                self._emit(OutputChunk(self._run, self._rank, "stderr", text))

    def _sample(
        self, reading: TrainingReading | None, *, asks_driver: bool = True, has_rates: bool = True
    ) -> MetricsSample:
        return MetricsSample(
            self._run,
            self._rank,
            time(),
            cpu_pct=self._cpu_pct(),
            rss_bytes=self._process.memory_info().rss,
            **(_fields(reading) if reading is not None else {}),
            **asdict(self._read_gpu() if asks_driver else GpuReading()),
            **(self._read_links() if has_rates else {}),
        )

    def _cpu_pct(self) -> float:
        """Return how busy this process was since the run began, or since the last call: 100 is one core."""
        cpu_s, at_s = process_time(), monotonic()
        used_s, passed_s = cpu_s - self._cpu_s, at_s - self._cpu_at_s
        self._cpu_s, self._cpu_at_s = cpu_s, at_s
        return round(100 * used_s / passed_s, 1) if passed_s > 0 else 0.0

    def _read_links(self) -> dict[str, Any]:
        return self._links.read() if self._links is not None else {}

    def _read_gpu(self) -> GpuReading:
        if not self._knows_gpu:
            self._gpu, self._knows_gpu = Gpu.of_this_rank(), True
        return self._gpu.read() if self._gpu is not None else GpuReading()


def _fields(reading: TrainingReading) -> dict[str, Any]:
    fields = asdict(reading)
    # A name may be any string of the program's, even one that no message can hold.
    fields["metrics"] = {bounded(name): value for name, value in fields["metrics"].items()}
    return fields


def links_of(world: World) -> HostLinks | None:
    """Return what the first rank on each host reads for all of it; None on the others."""
    return HostLinks() if world.local_rank == 0 else None
