"""Decides when the ranks of a run are released, how long to wait for them then, and when to give them up.

One policy for cells and scripts: the code that follows a run passes the time and the state of the ranks, and gets the
steps that are due. The policy starts no thread, sends nothing and reads no clock.

Only time in which the ranks, and we, could run counts. On a crowded machine a process that is ready to run may get no
core for seconds, and so may this one: a rank that had no time to answer is not stuck, and must not be ended for it.

Runs on: kernel, and the terminal's process of a script.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Literal["ask", "report"]

# The most that counts between two looks: where more passed, this process was stopped, and answers lie unread.
_LONGEST_TICK_S = 1.0
# Time without a core does not count, up to this much. Ranks starved for longer are reported and ended all the same.
_STARVED_S = 60.0


@dataclass(frozen=True)
class ReleaseTimes:
    """How long each step of a release takes at most.

    Attributes:
        grace_s: between the first rank's exception and the release of the others. Ranks in a collective get Horovod's
            error at once; those busy elsewhere may be about to end by themselves.
        answer_s: a rank that has not answered its release by then is stuck outside Python and Horovod, or ignores
            interrupts.
        unwind_s: one that says that its Python code was interrupted has longer: it may have much to tidy up.
        import_s: one that is still importing TensorFlow, which cannot be interrupted, has until then; the others' time
            begins after it.
        report_s: what is known of ranks that have not answered is reported after this time.
        ask_s: how often ranks that have not answered are asked whether they live.
    """

    grace_s: float = 0.5
    answer_s: float = 15.0
    unwind_s: float = 25.0
    import_s: float = 120.0
    report_s: float = 5.0
    ask_s: float = 1.0


CELL = ReleaseTimes()
# A script's ranks answer by ending, and a terminal's user waits less.
SCRIPT = ReleaseTimes(answer_s=10.0, unwind_s=10.0)
# After Ctrl-C a script may have a checkpoint to write.
SCRIPT_INTERRUPTED = ReleaseTimes(answer_s=30.0, unwind_s=30.0)


class ReleasePolicy:
    """The release of one run's ranks, step by step.

    Args:
        times: how long each step takes.
        starves: returns whether ranks that are waited for are ready to run and get no core.
    """

    def __init__(self, times: ReleaseTimes, starves: Callable[[], bool]) -> None:
        self.times = times
        self._starves = starves
        self._due_s: float | None = None
        self._began_s: float | None = None
        self._patience = Patience(starves, 0.0)
        self._asked_s: float | None = None
        self._is_reported = False

    @property
    def is_released(self) -> bool:
        """Whether the release has begun."""
        return self._began_s is not None

    def grace_is_over(self, now_s: float, *, ending: bool = False) -> bool:
        """Return whether the others are to be released. To be called once a rank has raised, and from then on.

        Args:
            now_s: the time.
            ending: the others have raised too, and none waits: they only make their reports.
        """
        if self._due_s is None:
            self._due_s = now_s + self.times.grace_s
        return now_s >= self._due_s + (self.times.answer_s if ending else 0.0)

    def begin(self, now_s: float, times: ReleaseTimes | None = None) -> None:
        """Note that the ranks are released. A second call counts only with times, which then begin again."""
        if self.is_released and times is None:
            return
        self.times = times or self.times
        # In this order: another thread, which follows the run, reads whether it has begun.
        self._patience = Patience(self._starves, now_s)
        self._began_s = now_s

    def since_s(self, now_s: float) -> float:
        """Return how long ago the release began; 0 where it has not."""
        return 0.0 if self._began_s is None else now_s - self._began_s

    def look(self, now_s: float, *, importing: bool = False) -> list[Step]:
        """Count the time since the last look, and return what is due. To be called while ranks have not answered.

        Args:
            now_s: the time.
            importing: one of them is still importing TensorFlow.
        """
        if not self.is_released:
            return []
        since_s, times = self.since_s(now_s), self.times
        self._patience.tick(now_s)
        due: list[Step] = []
        if since_s > times.ask_s and (self._asked_s is None or now_s - self._asked_s > times.ask_s):
            self._asked_s = now_s
            due.append("ask")
        if since_s < times.import_s and importing:
            self._patience.renew()
        if since_s > times.report_s and not self._is_reported:
            self._is_reported = True
            due.append("report")
        return due

    def is_over(self, *, unwinding: bool = False) -> bool:
        """Return whether ranks that have not answered by now are given up.

        Args:
            unwinding: all of them have said that their Python code was interrupted.
        """
        if not self.is_released:
            return False
        return self._patience.used_s > (self.times.unwind_s if unwinding else self.times.answer_s)


class Patience:
    """Counts the time that a release has taken.

    Args:
        starves: returns whether ranks that are waited for are ready to run and get no core.
        now_s: when it begins.
    """

    def __init__(self, starves: Callable[[], bool], now_s: float) -> None:
        self._starves = starves
        self._last_s = now_s
        self._starved_s = 0.0
        self.used_s = 0.0

    def tick(self, now_s: float) -> None:
        """Count the time since the last call."""
        passed_s = min(now_s - self._last_s, _LONGEST_TICK_S)
        self._last_s = now_s
        if self._starved_s < _STARVED_S and self._starves():
            self._starved_s += passed_s
        else:
            self.used_s += passed_s

    def renew(self) -> None:
        """Count from zero again: the ranks are in what nothing can interrupt."""
        self.used_s = 0.0
