"""Watches one run for stalls: makes one report of Horovod's warnings and of where the ranks are then.

Runs on: kernel, and the terminal of a script.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.protocol.events import CollectiveStalled, RankHeld, StallReported
from jupyter_ddl.protocol.faults import Facts, Fault, Frame, StackPlace, Thread, Wait
from jupyter_ddl.views.held_ranks import held_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jupyter_ddl.protocol.cell_options import StallOptions
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.rank_answers import RankStacks
    from jupyter_ddl.runs.run import Run

    Look = Callable[[Iterable[int]], dict[int, RankStacks]]

_SLACK_S = 0.5


class StallWatch:
    """The stalls of one run, each reported once. Its `handle` is to be called by one thread at a time.

    Args:
        run: the run.
        options: when they are reported.
        look: returns where ranks are; it may take seconds.
        report: called with each report, from a thread of its own; by default `run.take`.
        program: what runs: "cell" or "script".
    """

    def __init__(
        self,
        run: Run,
        options: StallOptions,
        look: Look,
        report: Callable[[StallReported], None] | None = None,
        program: Literal["cell", "script"] = "cell",
    ) -> None:
        self._run = run
        self._options = options
        self._look = look
        self._take = report or run.take
        self._program = program
        self._seen_s: dict[object, tuple[float, float]] = {}
        self._told: set[object] = set()
        self.fault: Fault | None = None
        self._until_s = 0.0
        # When the debugger held no rank any more, and whether its hold was reported.
        self._freed_s = -math.inf
        self._is_hold_told = False
        self._note: str | None = None

    def standing(self, now_s: float) -> Fault | None:
        """Return the fault of a reported stall that lasts; None where none does.

        Args:
            now_s: by the run's clock.
        """
        return self.fault if now_s <= self._until_s and not self._run.held else None

    @property
    def aborts(self) -> bool:
        """Whether the ranks are to be released: a stall was reported, and the options say to abort then."""
        return self.fault is not None and self._options.action == "abort" and not self._run.held

    def handle(self, event: Event) -> None:
        """Take an event of the run. After a stall that lasts, a StallReported comes later."""
        if isinstance(event, StallReported):
            self.fault = event.fault
        elif isinstance(event, RankHeld):
            self._note_hold(event)
        elif isinstance(event, CollectiveStalled) and self._run.held:
            self._tell_hold()
        elif isinstance(event, CollectiveStalled) and self._options.after_s is not None:
            what = (event.rank, event.tensors, tuple(sorted(event.missing)))
            first_s, last_s = self._seen_s.get(what, (event.at_s, event.at_s))
            if event.at_s - last_s > 3 * event.waited_s + _SLACK_S:
                # The collective had ended in between: this stall is new.
                first_s = event.at_s
            self._seen_s[what] = first_s, event.at_s
            # What the ranks waited while the debugger held another one counts for nothing.
            lasts_s = min(event.at_s - first_s + event.waited_s, event.at_s - self._freed_s)
            # Horovod repeats its warning while the stall lasts.
            self._until_s = self._run.clock.now_s() + 3 * event.waited_s + _SLACK_S
            if what not in self._told and lasts_s + _SLACK_S >= self._options.after_s / 2:
                self._told.add(what)
                self._begin_telling(event, lasts_s)

    def _note_hold(self, event: RankHeld) -> None:
        if self._run.held:
            self.fault = None
            return
        # What the ranks wait for from here on is a stall of its own.
        self._freed_s, self._is_hold_told = event.at_s, False
        self._seen_s.clear()
        self._told.clear()

    def _tell_hold(self) -> None:
        """Report, in place of a stall and once a hold, why the ranks wait."""
        if not self._is_hold_told:
            self._is_hold_told = True
            self._note = f"{held_sentence(self._run.held.values())} The other ranks wait for it."

    def take_note(self) -> str | None:
        """Return what is to be shown of a hold, once; None where there is nothing."""
        note, self._note = self._note, None
        return note

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
        self._report(stall_fault(stalled, lasts_s, run.ranks, stacks.values(), run.world_size))

    def _tell_little(self, stalled: CollectiveStalled, lasts_s: float, error: BaseException) -> None:
        """Report a stall without stacks: `--on-stall abort` waits for a report."""
        fault = stall_fault(stalled, lasts_s, self._run.ranks, (), self._run.world_size)
        self._report(replace(fault, facts=replace(fault.facts, error=described(error))))

    def _report(self, fault: Fault) -> None:
        run = self._run
        fault = replace(fault, facts=replace(fault.facts, program=self._program))
        self._take(StallReported(run.id, run.ranks, time.time(), fault))


def stall_fault(
    stalled: CollectiveStalled, lasts_s: float, ranks: Sequence[int], stacks: Iterable[RankStacks], world_size: int
) -> Fault:
    """Return the fault of a stall that lasts.

    Args:
        stalled: Horovod's warning.
        lasts_s: how long it has lasted at least.
        ranks: those of the run.
        stacks: where they are.
        world_size: the number of all ranks.
    """
    missing: dict[tuple[int, ...], list[str]] = {}
    for tensor in stalled.tensors:
        without = sorted(int(rank) for rank, names in stalled.missing.items() if tensor in names)
        missing.setdefault(tuple(without), []).append(tensor)
    facts = Facts(
        world_size=world_size,
        seconds=lasts_s,
        waits=tuple(Wait(tuple(tensors), without) for without, tensors in missing.items()),
        places=tuple(_places(stacks)),
    )
    return Fault("stalled", "ranks", tuple(ranks), at_s=stalled.at_s - lasts_s, facts=facts)


def _places(stacks: Iterable[RankStacks]) -> Iterator[StackPlace]:
    """Yield where ranks are, with those at the same place as one: of a thousand ranks most are there."""
    found: dict[tuple[tuple[Thread, ...], str], list[RankStacks]] = {}
    for one in sorted(stacks, key=lambda one: one.rank):
        threads = tuple(
            Thread(thread["name"], tuple(Frame(*frame) for frame in thread["frames"])) for thread in one.threads
        )
        found.setdefault((threads, one.note), []).append(one)
    for (threads, note), ones in found.items():
        yield StackPlace(tuple(one.rank for one in ones), tuple(one.host for one in ones), threads, note)
