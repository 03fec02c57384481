"""Shows the output under a notebook's cell: JupyterLab, Notebook 7, VS Code, nbconvert and papermill.

`Transcript` reads the events, `Page` lays out what they say, a `Publisher` sends it; this class only decides when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.events import OutputChunk, OutputCleared, RankFailed, RankFinished, RichOutput, StallReported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.page import Page
    from jupyter_ddl.views.publish import Display, Publisher
    from jupyter_ddl.views.transcript import Transcript

INTERVAL_S = 0.15
WAIT_S = 0.25


class CellView:
    """A `View` that shows in Jupyter. Its methods must be called by one thread at a time.

    Args:
        ranks: the ranks that run the cell.
        logs: what is shown after "more lines": where the whole output is; None to leave that out.
        publisher: takes the outputs.
        interval_s: the least time between two sends.
        wait_s: how long output waits for that of the other ranks, so that equal lines fold. A rank sends chunks a tenth
            of a second apart; its first may hold one line where another's holds them all.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        logs: str | None,
        publisher: Publisher,
        interval_s: float = INTERVAL_S,
        wait_s: float = WAIT_S,
    ) -> None:
        self._ranks = tuple(ranks)
        self._speaking = sum(1 << rank for rank in ranks)
        self._logs = logs
        self._publisher = publisher
        self._interval_s = interval_s
        self._wait_s = wait_s
        self._shown: tuple[Transcript, Page] | None = None
        self._is_behind = False
        self._due_s: float | None = None
        self._sent_s: float | None = None

    def handle(self, event: Event) -> None:
        """Take an event; nothing is sent before `tick` or `flush`."""
        if isinstance(event, OutputChunk | RichOutput | OutputCleared | StallReported):
            transcript, _ = self._shown or self._begin()
            self._is_behind = transcript.handle(event) or self._is_behind
        elif isinstance(event, RankFinished | RankFailed):
            self._speaking &= ~(1 << event.rank)

    def tick(self, now_s: float) -> None:
        """Send what has changed, once it has waited or no rank can add to it. Call it about ten times a second."""
        if not self._is_behind or (self._sent_s is not None and now_s - self._sent_s < self._interval_s):
            return
        if self._due_s is None:
            self._due_s = now_s + self._wait_s
        if now_s >= self._due_s or not self._speaking:
            self._sent_s = now_s
            self._send()

    def flush(self) -> None:
        """End unfinished lines and send all; for the end of the run."""
        if self._shown:
            self._shown[0].finish()
            self._send()

    def stand_above(self, run: str) -> Display:
        """Return where the dashboard of the run is shown: above this output, which moves down where it is there."""
        transcript, page = self._shown or self._begin()
        display = page.give_top(run)
        page.sync(self._publisher, transcript.live())
        return display

    def _begin(self) -> tuple[Transcript, Page]:
        # A cell without output costs nothing: neither these imports nor what they build.
        from jupyter_ddl.views.page import Page
        from jupyter_ddl.views.transcript import Transcript

        page = Page(self._ranks, self._logs)
        self._shown = Transcript(page), page
        return self._shown

    def _send(self) -> None:
        assert self._shown is not None
        transcript, page = self._shown
        transcript.advance()
        page.sync(self._publisher, transcript.live())
        self._is_behind = False
        self._due_s = None
