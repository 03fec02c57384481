"""Renders a fault as text: the same under a cell, in `%ddl show`, in the panel and at a script's end.

`render_fault` has all of it, `headline` one line, `describe` what an error's "Received:" says of lost ranks. For
browsers, `with_text` and `in_short` add the text to the fault.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError, ClusterLost, RankError, RunInterrupted, RunStalled, RunTimedOut
from jupyter_ddl.protocol.exit_statuses import MEANINGS
from jupyter_ddl.protocol.number_texts import counted, duration, memory_size
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.views.failure import render_failure
from jupyter_ddl.views.fault_texts import CAUSES, ENDS, JOB_ENDS, OUTCOMES, PROCESSES, REMEDIES, SIGNALS, STOPPED
from jupyter_ddl.views.stalls import render_stall, stall_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.errors import DdlError
    from jupyter_ddl.protocol.events import RankFailed
    from jupyter_ddl.protocol.faults import Fault, Kind, LastSample, RankProcess, Remedy

_HEADLINE_CHARACTERS = 500
_BY_OPTION = ", as --on-stall abort says."
_SIGNAL_NAMES = {one.value: one.name for one in signal.Signals}

# The error that `Session.run` raises for such an end, and `%ddl show` names.
ERRORS: dict[Kind, type[DdlError]] = {
    "lost": ClusterLost,
    "stopped": ClusterLost,
    "unanswered": ClusterError,
    "stalled": RunStalled,
    "timed out": RunTimedOut,
    "interrupted": RunInterrupted,
}


def render_fault(
    fault: Fault, failures: Sequence[RankFailed] = (), *, logs: object = None, program: str = "cell"
) -> str:
    """Return all that is known of why a run did not finish well.

    Args:
        fault: of the run.
        failures: what its ranks raised by themselves, first first: their tracebacks are shown.
        logs: where the run's logs are, for faults that name them; None to leave that out.
        program: what was run: "cell" or "script".
    """
    if fault.kind in ("lost", "stopped"):
        return _lost_ranks(fault, failures, logs, program)
    if fault.kind == "cut off" and program == "script":
        return "The terminal that ran it ended before it did."
    sentence = _TEXTS[fault.kind](fault)
    if fault.kind == "unanswered" and logs is not None:
        return f"{sentence} Logs: {logs}"
    if fault.kind == "raised" or (fault.kind == "interrupted" and fault.facts.error):
        return _raised(fault, failures)
    return sentence


def headline(fault: Fault) -> str:
    """Return the fault in one line, of bounded length."""
    if fault.kind in ("lost", "stopped"):
        sentence = describe(fault)
    elif fault.kind == "stalled":
        sentence = _stalled_in_short(fault)
    else:
        sentence = _TEXTS[fault.kind](fault)
    line = sentence.strip().partition("\n")[0]
    return line if len(line) <= _HEADLINE_CHARACTERS else line[: _HEADLINE_CHARACTERS - 1] + "…"


def with_text(fault: Fault) -> Fault:
    """Return a fault with its text, for a browser."""
    return replace(fault, text=describe(fault) if fault.kind in ("lost", "stopped") else _TEXTS[fault.kind](fault))


def in_short(fault: Fault) -> Fault:
    """Return a fault with its headline as its text, for states and notices.

    They go to every browser, at each change: where the ranks are is left out, which the run's events have.
    """
    return replace(fault, text=headline(fault), facts=replace(fault.facts, places=()))


def describe(fault: Fault) -> str:
    """Return how ranks were lost, or stopped, as sentences; below them what mpiexec, or the controller, printed."""
    if fault.kind == "stopped" and fault.subject == "idle":
        return f"stopped by {fault.facts.by}, after {duration(fault.facts.seconds)} without a run"
    if fault.kind == "stopped":
        return fault.facts.note or STOPPED.get(fault.subject, "stopped")
    parts = [f"{_end(fault)}."]
    is_known = fault.facts.excess is not None
    if fault.facts.last is not None and not is_known:
        parts.append(_last_seen(fault.facts.last))
    cause = _cause(fault)
    if cause is not None:
        parts.append(cause if is_known else f"Likely cause: {cause}")
    return " ".join(parts) + (f"\n{fault.facts.output}" if fault.facts.output else "")


def render_remedy(remedy: Remedy) -> str:
    """Return what is done about lost ranks, or can be done, as sentences."""
    lost = "The variables on the ranks are lost"
    if remedy.setup_cells:
        lost += f", and {counted(remedy.setup_cells, 'setup cell')} will be run again"
    ranks = f"{counted(remedy.ranks, 'new rank')} {'is' if remedy.ranks == 1 else 'are'}"
    text = REMEDIES[remedy.step].format(ranks=ranks, lost=lost, problem=remedy.problem)
    saved = ", ".join(remedy.checkpoints)
    return f"{text} Run again on new ranks, the cell resumes from its newest checkpoint in {saved}." if saved else text


def render_process(process: RankProcess) -> str:
    """Return what is known of a rank's process, as the end of a sentence."""
    return PROCESSES[process.state].format(pid=process.pid, host=process.host, detail=process.detail)


def signal_text(signum: int) -> str:
    """Return a signal's number and what the system calls it."""
    known = signal.strsignal(signum) if 0 < signum < signal.NSIG else None
    return f"signal {signum} ({known or 'unknown'})"


def _lost_ranks(fault: Fault, failures: Sequence[RankFailed], logs: object, program: str) -> str:
    sentence = f"Ranks must live to the end of the {program}. Received: {describe(fault)}"
    below = [] if fault.remedy is None else [render_remedy(fault.remedy)]
    below += [] if logs is None else [f"Logs: {logs}"]
    sentence += "\n" + " ".join(below) if below else ""
    if failures:
        sentence += f"\n\n{render_failure(RankError(failures, (), fault.facts.world_size or 0))}"
    return sentence


def _raised(fault: Fault, failures: Sequence[RankFailed]) -> str:
    """Return the ranks' own tracebacks, and how the others ended."""
    facts = fault.facts
    if failures:
        parts = [render_failure(RankError(failures, facts.released, facts.world_size or 0))]
    else:
        parts = [_raised_in_short(fault) if fault.kind == "raised" else facts.error]
    if facts.finished:
        parts.append(f"{_ranks(facts.finished)} had ended before, and Horovod with it")
    if facts.killed:
        parts.append(f"{_ranks(facts.killed)} had not ended by then, and had to be killed")
    return "\n\n".join(parts)


def _end(fault: Fault) -> str:
    """Return what ended, and how, as a sentence without its full stop."""
    facts = fault.facts
    if fault.subject == "rank":
        return _end_of_rank(fault)
    if fault.subject == "ranks":
        return f"the processes of ranks {compact(fault.ranks)} are gone, and the lease does not know how"
    if fault.subject == "mpiexec":
        if facts.signum is not None:
            return f"mpiexec was ended by {signal_text(facts.signum)}, and its ranks with it"
        return f"mpiexec ended with status {facts.status}"
    if fault.subject == "host" and facts.seconds is not None:
        who = f", and with it {_ranks(fault.ranks).lower()}" if fault.ranks else ""
        return f"{fault.host} has not answered for {duration(facts.seconds)}: it is down, or its network is{who}"
    if fault.subject == "job":
        return f"{facts.by} {JOB_ENDS.get(facts.outcome, f'ended as {facts.outcome}')}"
    if fault.subject == "release":
        return _end_by_release(fault)
    known = {"status": facts.status, "error": facts.error, "host": fault.host}
    return ENDS[fault.subject].format(**known) if fault.subject in ENDS else facts.note


def _end_of_rank(fault: Fault) -> str:
    facts = fault.facts
    who = f"rank {fault.ranks[0]}" if fault.ranks else f"the rank with PID {facts.pid}"
    where = f" on {fault.host}" if fault.host else ""
    if facts.excess is not None:
        held, most = memory_size(facts.excess.held_bytes), memory_size(facts.excess.most_bytes)
        of = "" if facts.excess.processes == 1 else f" in {facts.excess.processes:,} processes"
        what = "GPU memory" if facts.excess.on_gpu else "memory"
        return f"{who}{where} was ended, since it held {held} of {what}{of} and may hold {most}"
    if facts.is_unseen:
        how = f"ended: its process {facts.pid} is gone, and its exit status is not known"
    elif facts.signum is not None:
        how = f"was ended by {signal_text(facts.signum)}"
    elif facts.status:
        meaning = MEANINGS.get(facts.status)
        how = f"exited with status {facts.status}" + (f": {meaning}" if meaning else "")
    else:
        how = "ended its own process"
    return f"{who}{where} {how}"


def _end_by_release(fault: Fault) -> str:
    facts = fault.facts
    ended = OUTCOMES.get(facts.outcome, "was interrupted") + (f" by {facts.by}" if facts.by else "")
    known = "; ".join(f"rank {process.rank}: {render_process(process)}" for process in facts.processes)
    who = _ranks(fault.ranks).lower()
    return f"the cell {ended}, and {who} did not answer the release within {duration(facts.seconds or 0)}: {known}"


def _last_seen(last: LastSample) -> str:
    seen = f"{duration(last.before_s)} before it had {memory_size(last.rss_bytes)} of memory"
    if last.gpu_memory_used_bytes is not None:
        of = f" of {memory_size(last.gpu_memory_total_bytes)}" if last.gpu_memory_total_bytes else ""
        seen += f", and its GPU {memory_size(last.gpu_memory_used_bytes)}{of} in use"
    return seen + "."


def _cause(fault: Fault) -> str | None:
    """Return the likely cause of a rank's end, and the remedy; None where not known."""
    if fault.cause == "signal":
        return None if fault.facts.signum is None else SIGNALS.get(fault.facts.signum)
    if fault.cause is None:
        return None
    by = "" if fault.facts.excess is None else fault.facts.excess.by
    return CAUSES[fault.cause].format(evidence=repr(fault.facts.evidence), by=by)


def _raised_in_short(fault: Fault) -> str:
    facts = fault.facts
    who = f"Rank {fault.ranks[0] if fault.ranks else '?'} of {facts.world_size} on {fault.host}"
    return f"{who}: {facts.error}: {facts.message}"


def _unanswered(fault: Fault) -> str:
    facts = fault.facts
    return (
        f"Every rank must answer its release within {facts.limit_s or 0:g} s. Received: nothing from ranks "
        f"{compact(fault.ranks)} ({facts.outcome}). They are blocked outside Python and Horovod: "
        f"the next cell works once they have answered, and %ddl restart starts new ones."
    )


def _silent(fault: Fault) -> str:
    known = "; ".join(map(render_process, fault.facts.processes))
    return f"{_ranks(fault.ranks).lower()} has not answered for {duration(fault.facts.seconds or 0)}: {known}"


def _stalled(fault: Fault) -> str:
    """Return the report of a stall, and, where the run ended with it, how its ranks ended."""
    facts = fault.facts
    if facts.error:
        names = ", ".join(name for wait in facts.waits for name in wait.tensors)
        report = (
            f"Ranks have waited for {duration(facts.seconds or 0)} in a collective ({names}) "
            "that others have not entered. "
            f"Where they are could not be looked up: {facts.error}"
        )
    elif facts.waits:
        report = render_stall(fault)
    elif facts.note:
        report = facts.note
    else:
        return f"Ranks waited for others, and all were released{_BY_OPTION}"
    return f"{report}\nThe ranks were released{_BY_OPTION}" if facts.outcome == "stalled" else report


def _stalled_in_short(fault: Fault) -> str:
    if not fault.facts.waits or fault.facts.error:
        return _stalled(fault)
    released = f" The ranks were released{_BY_OPTION}" if fault.facts.outcome == "stalled" else ""
    return stall_sentence(fault) + released


def _timed_out(fault: Fault) -> str:
    limit_s = fault.facts.limit_s
    given = "" if limit_s is None else f"--timeout {limit_s:g}, and "
    return (
        f"The cell must end within its timeout. Received: {given}ranks still at it. They were released. "
        f"Pass a longer one, or none."
    )


def _interrupted(fault: Fault) -> str:
    facts = fault.facts
    if facts.signum is not None:
        return f"Ended by {_SIGNAL_NAMES.get(facts.signum, f'signal {facts.signum}')}."
    by = f" by {facts.by}" if facts.by else ""
    took = "" if facts.seconds is None else f" after {duration(facts.seconds)}"
    return f"The cell was interrupted{by}{took}, and its ranks were released."


def _cut_off(_: Fault) -> str:
    return "The kernel that ran it ended before it did."


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {compact(ranks)}"


_TEXTS: dict[Kind, Callable[[Fault], str]] = {
    "raised": _raised_in_short,
    "silent": _silent,
    "unanswered": _unanswered,
    "stalled": _stalled,
    "timed out": _timed_out,
    "interrupted": _interrupted,
    "cut off": _cut_off,
}
