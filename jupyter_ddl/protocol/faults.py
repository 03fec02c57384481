"""Defines a fault: a failure as data. `views.fault` renders its text, wherever it is shown.

It has codes and figures, and no sentences but those of others: what an exception said, what mpiexec printed, what a
rank wrote last. It crosses borders as a part of RankLost, RankSilent, StallReported, RunFinished, KernelState
and RunNotice, and stands in a run's `run.json` and a cluster's `ended.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it

Kind = Literal[
    "raised",  # ranks raised
    "lost",  # the ranks' processes are gone
    "stopped",  # the ranks were stopped, by their user or with their kernel
    "silent",  # nothing comes from a rank
    "unanswered",  # ranks did not answer their release, and were left alone
    "stalled",  # ranks wait in a collective for others
    "timed out",  # the run's timeout passed
    "interrupted",  # the run was interrupted
    "cut off",  # the kernel that ran it ended first
]
# Of what is lost, or stopped: what ended first, or who stopped it.
Subject = Literal[
    "rank",  # one rank: of several that end, the first
    "ranks",  # several, and nothing says which was the first
    "mpiexec",
    "host",  # MPI's daemon there: its ranks cannot be reached any more
    "job",  # the batch job that they were in: `facts.by` is which, `facts.outcome` the scheduler's word
    "controller",
    "lease",
    "event reader",  # the kernel's thread that reads the ranks' events
    "lease watch",  # the kernel's thread that watches the lease
    "host watch",  # the terminal's thread that watches the hosts of a script
    "connection",  # SSH's, to the host that holds ranks for a kernel to which the hosts cannot connect
    "release",  # ranks that did not answer their release: all were ended
    "user",
    "idle",  # no run used the ranks for `facts.seconds`, and `facts.by` ended them
    "kernel",
    "unknown",  # an older version wrote a sentence, which is in `facts.note`
]
Cause = Literal[
    "out of memory killer",  # the Linux kernel's
    "memory limit",  # the site's: `facts.excess`
    "allocation",  # it could get no more memory; `facts.evidence` is what it printed
    "different sizes",  # of what ranks gave one collective; likewise
    "failed check",  # of C or C++ code; likewise
    "signal",  # `facts.signum` says all that is known
]
ProcessState = Literal[
    "answers",  # its Python answers, and its main thread does not
    "importing",  # TensorFlow, which nothing can interrupt
    "unwinding",  # its code was interrupted, and has not ended yet
    "elsewhere",  # on another host
    "unreachable",  # its host does not answer
    "gone",
    "hidden",  # the system does not say; `detail` is why
    "starved",  # ready to run, and gets no core
    "stopped",
    "traced",
    "running",
    "sleeping",
    "disk",  # it waits for a disk or a network file system
    "ended",
    "other",  # `detail` is the system's word
    "unknown",
    "in words",  # of an older version, in `detail`
]
# What is done about lost ranks, or can be.
Step = Literal[
    "restart",  # %ddl restart starts new ones
    "restart again",  # %ddl restart tries again
    "replaced",  # new ones are being started automatically
    "replaced on fewer hosts",  # likewise, without a host that was lost
    "restarting",  # new ones are being started, as the user asked
    "submit",  # their batch job has ended: %ddl submit sends another
    "wait",  # their batch job was put back into the queue, and is waited for
    "find the cause",  # they had replaced lost ones, and are not replaced once more
    "not replaced",  # they could not be; `problem` is why
]


@dataclass(frozen=True)
class Remedy:
    """What is done about lost ranks, or can be.

    Attributes:
        ranks: how many new ones are started.
        setup_cells: how many setup cells these run.
        problem: what kept new ones from being started.
        checkpoints: the folders from which the lost trainings resume; empty where new ranks say so when they are there.
    """

    step: Step
    ranks: Int64 = 0
    setup_cells: Int64 = 0
    problem: str = ""
    checkpoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class LastSample:
    """What a rank's last sample reported.

    Attributes:
        before_s: how long before the fault.
        rss_bytes: its process's resident memory.
        step: training steps by then; None where it did not train.
    """

    before_s: float
    rss_bytes: Int64
    gpu_memory_used_bytes: Int64 | None = None
    gpu_memory_total_bytes: Int64 | None = None
    step: Int64 | None = None


@dataclass(frozen=True)
class MemoryExcess:
    """What a rank held when it was ended for it.

    Attributes:
        held_bytes: with all that it had started.
        processes: how many these were, with the rank's own.
        most_bytes: what it may hold.
        by: who says so, as `protocol.memory_limit` has it.
        on_gpu: it is the memory of GPUs.
    """

    held_bytes: Int64
    processes: Int64
    most_bytes: Int64
    by: str
    on_gpu: bool = False


@dataclass(frozen=True)
class RankProcess:
    """What is known of the process of a rank that does not answer."""

    rank: Int64
    state: ProcessState
    pid: Int64 | None = None
    host: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Frame:
    """One call of a thread; without a file it stands for others that are left out, and `function` says how many.

    Attributes:
        text: the line, where it is a cell's.
    """

    file: str
    line: Int64
    function: str
    text: str = ""


@dataclass(frozen=True)
class Thread:
    """Where a thread is: its calls, outermost first."""

    name: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class StackPlace:
    """Where some ranks are, all at the same place.

    Attributes:
        hosts: of each of the ranks.
        threads: the main thread first.
        note: what else is known of how they were seen, or why they were not; "" for nothing.
    """

    ranks: tuple[Int64, ...]
    hosts: tuple[str, ...]
    threads: tuple[Thread, ...]
    note: str = ""


@dataclass(frozen=True)
class Wait:
    """Collectives, by their names, in which the same ranks are missing; none where these are not known."""

    tensors: tuple[str, ...]
    missing: tuple[Int64, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a fault; a default where nothing is.

    Attributes:
        world_size: the number of all ranks.
        pid: of the process that ended.
        signum: the signal that ended it.
        status: what it exited with, where no signal ended it.
        is_unseen: nothing says how it ended: its process is gone.
        oom_kills: how often the Linux kernel ended a process there for lack of memory while the ranks lived.
        excess: the memory for which it was ended; None where it was not.
        last: the rank's last sample.
        evidence: the line that it printed, and from which the cause is known.
        output: what mpiexec or the controller printed last.
        error: the class of what was raised, or the error of ours, with its text.
        message: the text of what was raised; of a long one the beginning.
        released: the ranks that ended because others raised.
        finished: the ranks of a script that had ended well before.
        killed: the ranks of a script that did not end when they were asked to.
        seconds: how long it lasted, or until then.
        limit_s: the time that was allowed.
        by: what interrupted it, or ended idle ranks, where that was not the cell's user.
        outcome: how the run had ended when its ranks were asked to end.
        program: what stalled: a cell or a script.
        waits: the collectives in which ranks wait for others.
        processes: of the ranks that do not answer.
        places: where ranks are.
        note: the sentence that an older version wrote.
    """

    world_size: Int64 | None = None
    pid: Int64 | None = None
    signum: Int64 | None = None
    status: Int64 | None = None
    is_unseen: bool = False
    oom_kills: Int64 = 0
    excess: MemoryExcess | None = None
    last: LastSample | None = None
    evidence: str = ""
    output: str = ""
    error: str = ""
    message: str = ""
    released: tuple[Int64, ...] = ()
    finished: tuple[Int64, ...] = ()
    killed: tuple[Int64, ...] = ()
    seconds: float | None = None
    limit_s: float | None = None
    by: str = ""
    outcome: str = ""
    program: Literal["cell", "script"] = "cell"
    waits: tuple[Wait, ...] = ()
    processes: tuple[RankProcess, ...] = ()
    places: tuple[StackPlace, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Fault:
    """What failed, where, since when, what is known of it, why, and what helps.

    Attributes:
        ranks: which ranks failed, the first cause first; of a stall, those of the run. Empty where none is known.
        host: where the first of them ran.
        at_s: since when, seconds since the epoch.
        cause: what probably ended it; None where nothing is known.
        text: what `views.fault` renders of it: only a fault that goes to a browser has it.
    """

    kind: Kind
    subject: Subject = "ranks"
    ranks: tuple[Int64, ...] = ()
    host: str | None = None
    at_s: float = 0.0
    cause: Cause | None = None
    remedy: Remedy | None = None
    facts: Facts = field(default_factory=Facts)
    text: str = ""


def loss_in_words(cause: str, ranks: tuple[int, ...] = (), *, asked: bool = False, **known: Any) -> Fault:
    """Return the fault of a loss that an older version recorded as a sentence.

    Args:
        cause: its sentence, and what mpiexec printed in the lines below.
        ranks: the rank that ended first, where it was known.
        asked: the ranks were stopped.
        known: the other facts beside the sentence: at_s, host, signum, oom_kills.
    """
    note, _, output = cause.partition("\n")
    signum, oom_kills = known.get("signum"), known.get("oom_kills", 0)
    facts = Facts(signum=signum, oom_kills=oom_kills, note=note, output=output)
    why: Cause | None = None if signum is None else "out of memory killer" if signum == 9 and oom_kills else "signal"
    kind: Kind = "stopped" if asked else "lost"
    return Fault(kind, "unknown", ranks, known.get("host"), known.get("at_s", 0.0), why, facts=facts)
