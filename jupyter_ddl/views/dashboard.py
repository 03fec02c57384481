"""Shows live in the notebook how a run trains: states, samples/s, loss, what a step is spent on, devices and logs.

The browser's side is labextension/src, bundled into static/. This side sends it events at most twice a second, of many
ranks once, without waiting for it, and from time to time all of them, thinned, for a page that opens late or missed
some.
"""

from __future__ import annotations

import threading
import uuid
import zlib
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, OutputCleared, RichOutput
from jupyter_ddl.protocol.rank_life import RankWarm
from jupyter_ddl.views.browser_files import check_built
from jupyter_ddl.views.event_batches import batch
from jupyter_ddl.views.figures import Figures
from jupyter_ddl.views.history import MAX_TEXT, History
from jupyter_ddl.views.publish import Display
from jupyter_ddl.views.run_output import final_state, run_bundle
from jupyter_ddl.views.spread import SPREAD_OVER, Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.views.event_batches import Entry
    from jupyter_ddl.views.publish import Publisher
    from jupyter_ddl.views.view import SingleRank

INTERVAL_S = 0.5
# Of many ranks a batch has this many updates' samples, and comes as much later: each costs JupyterLab the same, and
# most pages have the hub's and read none of it.
MANY_RANKS_TURNS = 2
# Characters of output in one batch. The excess is in the log files, and counted.
BATCH_TEXT = 256_000
# All events are sent again each time the run's duration has doubled: a page that missed some, while the kernel is busy
# and cannot answer, waits no longer than that. Most pages need none of it, so it has little of the output.
_HISTORY_GROWTH = 2.0
RESENT_TEXT = 256_000


class Dashboard:
    """A `View` of a run that trains; it appears with the first sample of a training step.

    Runs on: kernel. One thread at a time may call its methods; none waits for the browser.

    Args:
        publisher: shows it under a cell.
        ready: the ranks, for their hosts.
        single_rank: returns what one rank alone makes of a model, for the scaling efficiency.
        interval_s: the least time between two batches.
        place: returns where to show a run's dashboard; by default below what is there.
    """

    def __init__(
        self,
        publisher: Publisher,
        ready: Sequence[RankReady] = (),
        single_rank: SingleRank = lambda _: None,
        interval_s: float = INTERVAL_S,
        place: Callable[[str], Display] | None = None,
    ) -> None:
        self._publisher = publisher
        self._place = place
        self._display = Display(f"ddl-dashboard-{uuid.uuid4().hex}")
        self._interval_s = interval_s
        self._figures = Figures(single_rank)
        self._history = History()
        # A page that opens late asks for the history, which the kernel's main thread answers.
        self._lock = threading.Lock()
        self._pending = Pending()
        self._sent = 0
        self._sent_s: float | None = None
        self._shown_s = 0.0
        self._history_due_s = 0.0
        self._widget: Any = None
        self._is_due = False
        self._is_requested = False
        for rank in ready:
            self.handle(rank)

    @property
    def is_shown(self) -> bool:
        """Whether the run trains, and so has a dashboard."""
        return self._widget is not None

    def show(self) -> None:
        """Show it even if the run does not train, and keep it interactive in every front end when the run is over."""
        self._is_requested = True
        if self._widget is None:
            self._show(0.0)

    def handle(self, event: Event) -> None:
        """Take an event; nothing is sent before `tick` or `flush`."""
        if isinstance(event, RichOutput | OutputCleared | RankWarm):
            return
        self._figures.handle(event)
        if self._widget is None:
            self._keep([event])
        else:
            self._pending.add(event)
        if isinstance(event, MetricsSample) and event.step is not None:
            self._is_due = True

    def tick(self, now_s: float) -> None:
        """Send the events since the last batch, if that is long enough ago. Call it about ten times a second."""
        turns = MANY_RANKS_TURNS if self._pending.is_spread else 1
        if self._sent_s is not None and now_s - self._sent_s < turns * self._interval_s:
            return
        self._sent_s = now_s
        if self._widget is not None:
            self._send(now_s, turns)
        elif self._is_due:
            self._show(now_s)

    def flush(self) -> None:
        """Send the rest, and put the final state into the output, for readers without the dashboard."""
        if self._widget is not None:
            self._send(max(self._history_due_s, self._sent_s or 0.0), SPREAD_OVER)
        elif self._is_due:
            self._show(0.0)
        else:
            return
        widget_id = self._widget.model_id if self._is_requested else None
        self._publish(widget_id, final_state(self._figures))

    def history(self, max_text: int = MAX_TEXT) -> bytes:
        """Return all events so far, thinned, as the widget takes them. Safe from any thread.

        Args:
            max_text: characters of output; of more, the newest.
        """
        with self._lock:
            entries = self._history.entries(max_text)
            following = self._history.next
        return self._batch(0, following, entries)

    def _batch(self, first: int, following: int, entries: Sequence[Entry]) -> bytes:
        """Return a batch that zlib has compressed.

        Most pages have the events from the hub, too, and unpack none of it; and the browser frees the bytes of a
        message only when it collects all its garbage.
        """
        figures = self._figures
        means = None if figures.outcome is None else figures.means()
        return zlib.compress(batch(first, following, figures.single_rank_samples_per_s, entries, means), level=1)

    def _keep(self, events: Sequence[Event]) -> list[Entry]:
        with self._lock:
            return [self._history.add(event) for event in events]

    def _show(self, now_s: float) -> None:
        from jupyter_ddl.views.widget import make_widget

        self._widget = make_widget(self.history)
        self._sent = self._history.next
        self._shown_s = now_s
        self._history_due_s = now_s + 2 * self._interval_s
        if self._place is not None and self._figures.run is not None:
            self._display = self._place(self._figures.run)
        self._publish(self._widget.model_id)

    def _publish(self, widget_id: str | None, final: dict[str, str] | None = None) -> None:
        self._display.send(self._publisher, run_bundle(self._figures.run, widget_id, final), {})

    def _send(self, now_s: float, turns: int) -> None:
        entries = self._keep(self._pending.take(turns))
        if entries:
            following = entries[-1].number + 1
            self._widget.batch = self._batch(self._sent, following, entries)
            self._sent = following
        if now_s >= self._history_due_s:
            self._widget.history = self.history(RESENT_TEXT)
            self._history_due_s = now_s + (_HISTORY_GROWTH - 1) * max(now_s - self._shown_s, self._interval_s)


class Pending:
    """The events that wait to be sent: output up to a batch's limit, and of many ranks' samples the newest."""

    def __init__(self, max_text: int = BATCH_TEXT) -> None:
        self._max_text = max_text
        self._events: list[Event] = []
        self._output: deque[tuple[int, OutputChunk]] = deque()
        self._text = 0
        self._left_out: dict[tuple[int, str], int] = {}
        self._samples: Spread[MetricsSample] = Spread()

    def add(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, MetricsSample) and self._samples.hold(event.rank, event):
            return
        self._events.append(event)
        if not isinstance(event, OutputChunk):
            return
        self._output.append((len(self._events) - 1, event))
        self._text += len(event.text)
        while self._text > self._max_text and len(self._output) > 1:
            index, chunk = self._output.popleft()
            self._text -= len(chunk.text)
            key = chunk.rank, chunk.stream
            size = len(chunk.text.encode(errors="replace"))
            self._left_out[key] = self._left_out.get(key, 0) + size + chunk.skipped_bytes
            # Its place in the batch stays, without its text.
            self._events[index] = replace(chunk, text="", skipped_bytes=0)

    @property
    def is_spread(self) -> bool:
        """Whether the ranks' samples are spread over several batches."""
        return self._samples.is_spread

    def take(self, turns: int = 1) -> list[Event]:
        """Return the events since the last call; text that was left out is counted in the rank's next chunk.

        Args:
            turns: how many sixths of many ranks tell of themselves; `SPREAD_OVER`: all.
        """
        # Before the others: among these may be a rank's end.
        events: list[Event] = [*self._samples.take(turns)]
        for event in self._events:
            if isinstance(event, OutputChunk):
                if not event.text and not event.skipped_bytes:
                    continue
                if left_out := self._left_out.pop((event.rank, event.stream), 0):
                    event = replace(event, skipped_bytes=event.skipped_bytes + left_out)
            events.append(event)
        self._events, self._text = [], 0
        self._output.clear()
        return events


def show_finished(events: Iterable[Event], publisher: Publisher, single_rank: SingleRank = lambda _: None) -> None:
    """Show a recorded run, or as much of one as there is.

    Args:
        events: the run's, in their order.
        publisher: shows the dashboard under a cell.
        single_rank: as in `Dashboard`.

    Raises:
        ValueError: there are no events.
        DashboardMissing: the browser's part was not built.
    """
    check_built()
    dashboard = Dashboard(publisher, single_rank=single_rank)
    is_empty = True
    for event in events:
        is_empty = False
        dashboard.handle(event)
    if is_empty:
        raise ValueError("A run must have events to be shown. Received: none.")
    dashboard.show()
    dashboard.flush()
