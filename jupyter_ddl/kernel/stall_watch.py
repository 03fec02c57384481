"""Watches one run for stalls: what Horovod says of them, and where the ranks are then, becomes one report.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.views.stalls import render_stall, stall_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_ddl.protocol.cell_options import StallOptions
    from jupyter_ddl.protocol.events import Event, RankStacks
    from jupyter_ddl.runs.run import Run

    Look = Callable[[Iterable[int]], dict[int, RankStacks]]

_SLACK_S = 0.5


class StallWatch:
    """The stalls of one run, each told once. Its `handle` is to be called by one thread at a time.

    Args:
        run: which.
        options: when they are told.
        look: returns where ranks are; it may take seconds.
    """

    def __init__(self, run: Run, options: StallOptions, look: Look) -> None:
        self._run = run
        self._options = options
        self._look = look
        self._seen_s: dict[object, tuple[float, float]] = {}
        self._told: set[object] = set()
        self.report = ""
        self._sentence = ""
        self._until_s = 0.0

    def standing(self, now_s: float) -> str:
        """Return who waits for whom, of a stall that was told and lasts; empty where none does.

        Args:
            now_s: by the monotonic clock.
        """
        return self._sentence if now_s <= self._until_s else ""

    @property
    def aborts(self) -> bool:
        """Whether the ranks are to be released: a stall was told, and that was asked for."""
        return bool(self.report) and self._options.action == "abort"

    def handle(self, event: Event) -> None:
        """Take an event of the run. Where it tells of a stall that lasts, a StallReported comes later."""
        if isinstance(event, StallReported):
            self.report = event.text
        elif isinstance(event, CollectiveStalled) and self._options.after_s is not None:
            what = (event.rank, event.tensors, tuple(sorted(event.missing)))
            first_s, last_s = self._seen_s.get(what, (event.at_s, event.at_s))
            if event.at_s - last_s > 3 * event.waited_s + _SLACK_S:
                # Meanwhile it had gone on.
                first_s = event.at_s
            self._seen_s[what] = first_s, event.at_s
            lasts_s = event.at_s - first_s + event.waited_s
            # Horovod says it again and again for as long as it lasts.
            self._until_s = time.monotonic() + 3 * event.waited_s + _SLACK_S
            if what not in self._told and lasts_s + _SLACK_S >= self._options.after_s / 2:
                self._told.add(what)
                self._begin_telling(event, lasts_s)

    def _begin_telling(self, stalled: CollectiveStalled, lasts_s: float) -> None:
        thread = Supervised(
            self._tell,
            "jupyter_ddl stall report",
            lambda error: self._tell_little(stalled, lasts_s, error),
            (stalled, lasts_s),
        )
        try:
            thread.start()
        except HostUnfit as error:
            self._tell_little(stalled, lasts_s, error)

    def _tell(self, stalled: CollectiveStalled, lasts_s: float) -> None:
        run = self._run
        stacks = self._look(sorted(run.pending))
        self._sentence = stall_sentence(stalled, run.ranks)
        self._report(render_stall(stalled, lasts_s, run.ranks, stacks.values(), run.world_size))

    def _tell_little(self, stalled: CollectiveStalled, lasts_s: float, error: BaseException) -> None:
        """Report a stall without stacks: `--on-stall abort` waits for a report."""
        names = ", ".join(stalled.tensors)
        self._report(
            f"Ranks have waited for {lasts_s:.0f} s in a collective ({names}) that others have not entered. Where they "
            f"are could not be looked up: {described(error)}"
        )

    def _report(self, text: str) -> None:
        run = self._run
        run.take(StallReported(run.id, run.ranks, time.time(), text))
