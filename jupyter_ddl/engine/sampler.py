"""Sends a MetricsSample once a second, or as often as was asked for, while a cell runs.

Runs on: every rank, in a thread of its own.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import asdict
from time import time
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
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

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
        self._stop = threading.Event()
        thread = threading.Thread(
            target=self._sample_until, args=(self._stop, every_s), name="jupyter_ddl sampler", daemon=True
        )
        try:
            thread.start()
        except Exception as error:  # noqa: BLE001  an earlier cell has left no room for a thread: this one has no figures
            self._tell(error)
        else:
            self._thread = thread

    def end(self) -> None:
        """Send what the training did since the last sample, and stop. Safe to call twice."""
        self._meter.parameters.end()
        self._meter.epochs.end()
        self._meter.step_times.end()
        if self._stop is None or self._thread is None:
            return
        self._stop.set()
        self._thread.join(_END_S)
        self._stop = self._thread = None
        try:
            reading = self._meter.read()
        except Exception as error:  # noqa: BLE001  as in _send
            self._tell(error)
            return
        if reading is not None:
            self._send(reading)

    def _sample_until(self, stop: threading.Event, every_s: float) -> None:
        # The first calls only set the start of the interval; where one fails, the next one reports it.
        with suppress(Exception):
            self._process.cpu_percent()
            self._read_links()
            self._read_gpu()
        while not stop.wait(every_s):
            try:
                self._send(self._meter.read())
            except Exception as error:  # noqa: BLE001  as in _send
                self._tell(error)

    def _send(self, reading: TrainingReading | None) -> None:
        try:
            self._emit(self._sample(reading))
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

    def _sample(self, reading: TrainingReading | None) -> MetricsSample:
        with self._process.oneshot():
            cpu_pct, rss_bytes = self._process.cpu_percent(), self._process.memory_info().rss
        return MetricsSample(
            self._run,
            self._rank,
            time(),
            cpu_pct=cpu_pct,
            rss_bytes=rss_bytes,
            **(_fields(reading) if reading is not None else {}),
            **asdict(self._read_gpu()),
            **self._read_links(),
        )

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
