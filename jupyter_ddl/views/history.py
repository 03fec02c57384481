"""Keeps the events of a run in bounded memory, for a view that opens late.

Samples are thinned evenly over time and alike on all ranks, so that their sums stay right. The newest output stays.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import EpochEnded, MetricsSample, OutputChunk, RankFailed, StragglerMarked
from jupyter_ddl.views.event_batches import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jupyter_ddl.protocol.events import Event, Stream

MAX_SAMPLES = 24_000
MAX_TEXT = 4_000_000
MAX_MARKS = 4_000
MAX_DROPPED = 10_000
MAX_EPOCHS = 4_000
# Of a thousand ranks that fail alike, the first tracebacks suffice.
MAX_TRACEBACKS = 32


class History:
    """Numbers events and keeps what a late view needs of them."""

    def __init__(self, max_samples: int = MAX_SAMPLES, max_text: int = MAX_TEXT) -> None:
        self.next = 0
        self._max_samples = max_samples
        self._max_text = max_text
        self._lasting: list[Entry] = []
        self._marks: deque[Entry] = deque(maxlen=MAX_MARKS)
        self._output: deque[Entry] = deque()
        self._text = 0
        self._run = ""
        # The dropped bytes, by rank and stream; and the numbers and bytes of the last ones, for a page that has read
        # up to a number.
        self._dropped: dict[tuple[int, Stream], int] = {}
        self._last_dropped: deque[tuple[int, tuple[int, Stream], int]] = deque(maxlen=MAX_DROPPED)
        self._samples: dict[int, list[tuple[int, Entry]]] = {}
        self._n_samples = 0
        self._slot_s = 1.0
        # Of one rank, each `_epochs_apart`-th of it: a run may have millions.
        self._epochs: list[Entry] = []
        self._epochs_rank: int | None = None
        self._epochs_seen = 0
        self._epochs_apart = 1
        self._tracebacks = 0

    def add(self, event: Event) -> Entry:
        """Number an event and keep it, or a part of it."""
        if isinstance(event, RankFailed):
            self._tracebacks += 1
            if self._tracebacks > MAX_TRACEBACKS:
                event = replace(event, traceback=())
        entry = Entry(self.next, event)
        self.next += 1
        if isinstance(event, MetricsSample):
            self._add_sample(event, entry)
        elif isinstance(event, EpochEnded):
            self._add_epoch(event, entry)
        elif isinstance(event, OutputChunk):
            self._add_output(event, entry)
        elif isinstance(event, StragglerMarked):
            self._marks.append(entry)
        else:
            self._lasting.append(entry)
        return entry

    def entries(self, max_text: int = MAX_TEXT, since: int = 0) -> list[Entry]:
        """Return what is kept, in the order of its numbers.

        Args:
            max_text: characters of output; of more, the newest. The rank's next chunk counts what is left out.
            since: the number of the first event that is wanted.
        """
        samples = (
            entry for kept in self._samples.values() for entry in _since(since, (entry for _, entry in reversed(kept)))
        )
        others = (
            entry for kept in (self._lasting, self._marks, self._epochs) for entry in _since(since, reversed(kept))
        )
        output = self._newest_output(max_text, since)
        return sorted([*others, *output, *samples], key=attrgetter("number"))

    def _newest_output(self, max_text: int, since: int) -> list[Entry]:
        kept: list[Entry] = []
        left_out = self._dropped_since(since)
        text = 0
        for entry in _since(since, reversed(self._output)):
            chunk = entry.event
            assert isinstance(chunk, OutputChunk)
            text += len(chunk.text)
            if text <= max_text:
                kept.append(entry)
            else:
                left_out[chunk.rank, chunk.stream] = left_out.get((chunk.rank, chunk.stream), 0) + _size(chunk)
        kept.reverse()
        for at, entry in enumerate(kept):
            if not left_out:
                break
            chunk = entry.event
            assert isinstance(chunk, OutputChunk)
            if missing := left_out.pop((chunk.rank, chunk.stream), 0):
                kept[at] = Entry(entry.number, replace(chunk, skipped_bytes=chunk.skipped_bytes + missing))
        # The rest is of ranks that have printed nothing since.
        first = kept[0].number if kept else max(since, self.next - 1)
        quiet = [OutputChunk(self._run, *key, "", missing) for key, missing in left_out.items()]
        return [*(Entry(first, chunk) for chunk in quiet), *kept]

    def _add_sample(self, sample: MetricsSample, entry: Entry) -> None:
        kept = self._samples.setdefault(sample.rank, [])
        # Its time is no number: count it with the one before.
        slot = kept[-1][0] if kept else 0
        if math.isfinite(sample.at_s):
            slot = math.floor(sample.at_s / self._slot_s)
        if kept and kept[-1][0] == slot:
            kept[-1] = slot, entry
            return
        kept.append((slot, entry))
        self._n_samples += 1
        # A sample of each rank is kept in any case.
        while self._n_samples > self._max_samples and self._n_samples > len(self._samples):
            self._thin()

    def _thin(self) -> None:
        self._slot_s *= 2
        self._n_samples = 0
        for rank, kept in self._samples.items():
            # The last one of each slot, as in `_add_sample`.
            thinned = {slot // 2: entry for slot, entry in kept}
            self._samples[rank] = list(thinned.items())
            self._n_samples += len(thinned)

    def _add_epoch(self, event: EpochEnded, entry: Entry) -> None:
        """Keep an epoch of the lowest rank that reports any: ranks that train apart report each their own."""
        if self._epochs_rank is None or event.rank < self._epochs_rank:
            self._epochs, self._epochs_rank = [], event.rank
            self._epochs_seen, self._epochs_apart = 0, 1
        if event.rank != self._epochs_rank:
            return
        # The newest is there in any case.
        if self._epochs and self._epochs_seen % self._epochs_apart:
            self._epochs.pop()
        self._epochs_seen += 1
        self._epochs.append(entry)
        if len(self._epochs) >= MAX_EPOCHS and not self._epochs_seen % self._epochs_apart:
            self._epochs = self._epochs[1::2]
            self._epochs_apart *= 2

    def _add_output(self, chunk: OutputChunk, entry: Entry) -> None:
        self._run = chunk.run
        self._output.append(entry)
        self._text += len(chunk.text)
        while self._text > self._max_text and len(self._output) > 1:
            entry = self._output.popleft()
            oldest = entry.event
            assert isinstance(oldest, OutputChunk)
            self._text -= len(oldest.text)
            key, size = (oldest.rank, oldest.stream), _size(oldest)
            self._dropped[key] = self._dropped.get(key, 0) + size
            self._last_dropped.append((entry.number, key, size))

    def _dropped_since(self, number: int) -> dict[tuple[int, Stream], int]:
        """Return how many bytes of each rank's streams were dropped, of the events from a number on."""
        if number == 0:
            return dict(self._dropped)
        left_out: dict[tuple[int, Stream], int] = {}
        for at, key, size in self._last_dropped:
            if at >= number:
                left_out[key] = left_out.get(key, 0) + size
        return left_out


def _size(chunk: OutputChunk) -> int:
    """Return how many bytes of a rank's log a chunk represents."""
    return len(chunk.text.encode(errors="replace")) + chunk.skipped_bytes


def _since(number: int, newest_first: Iterable[Entry]) -> Iterator[Entry]:
    return takewhile(lambda entry: entry.number >= number, newest_first)
