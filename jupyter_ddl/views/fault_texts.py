"""Holds the texts of faults, by their codes, from which `views.fault` renders them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.protocol.faults import Cause, ProcessState, Step, Subject

STOPPED: dict[Subject, str] = {"user": "stopped", "kernel": "its kernel ended"}
ENDS: dict[Subject, str] = {
    "host": (
        "{host} was lost: mpiexec reaches its daemon there no more (the host went down, its network failed, or the "
        "daemon was killed)"
    ),
    "controller": "ipyparallel's controller ended with status {status}",
    "lease": "the lease, which holds the cluster's processes, was killed",
    "event reader": "the kernel can no longer read its ranks' events ({error})",
    "lease watch": "the kernel can no longer watch the cluster's lease ({error})",
    "host watch": "the hosts of the ranks can no longer be watched ({error})",
    "connection": "the SSH connection to {host}, through which its ranks are held, ended ({error})",
}
OUTCOMES: dict[str, str] = {
    "interrupted": "was interrupted",
    "timed out": "timed out",
    "stalled": "stalled",
    "failed": "failed",
}
# Of a batch job, by Slurm's word.
JOB_ENDS = {
    "CANCELLED": "was cancelled, by its owner or its site",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "reached its deadline",
    "PREEMPTED": "was preempted: another job took its nodes",
    "PREEMPTED AND REQUEUED": "was preempted: another job took its nodes, and it was put back into the queue",
    "REQUEUED": "was preempted, or its node failed, and it was put back into the queue",
    "NODE_FAIL": "lost a node",
    "COMPLETING": "is being ended",
    "OUT_OF_MEMORY": "had more memory than it was allowed",
}
REMEDIES: dict[Step, str] = {
    "restart": "%ddl restart starts new ones.",
    "restart again": "%ddl restart tries again.",
    "replaced": "{ranks} being started on the same devices: the next cell waits for them. {lost}.",
    "replaced on fewer hosts": (
        "{ranks} being started on the hosts that are left: the next cell waits for them. {lost}."
    ),
    "restarting": "New ones are being started.",
    "submit": "Its nodes are gone with it: %ddl submit sends another job, %ddl start --local uses this host.",
    "wait": "Its ranks are waited for: they come back when it runs again.",
    "find the cause": (
        "They had themselves replaced lost ones and had run no cell, so they are not replaced once more: "
        "find the cause first. %ddl restart starts new ones."
    ),
    "not replaced": "New ones could not be started automatically ({problem}). %ddl restart starts new ones.",
}
PROCESSES: dict[ProcessState, str] = {
    "answers": "its process {pid} answers, so its main thread is in C or C++ code, or ignores the interrupt",
    "importing": "it is still importing TensorFlow, which nothing can interrupt",
    "unwinding": "its code was interrupted, and has not ended yet",
    "elsewhere": "its process, {pid} on {host}, cannot be looked at from here",
    "unreachable": "{host} does not answer: it is down, or its network is",
    "gone": "its process is gone",
    "hidden": "its process, {pid}, cannot be looked at: {detail}",
    "starved": "its process {pid} is ready to run but gets no core: {host} is overloaded",
    "stopped": "its process {pid} is stopped (SIGSTOP, a debugger or a batch system); `kill -CONT {pid}` resumes it",
    "traced": "its process {pid} is stopped by a debugger",
    "running": "its process {pid} computes, probably in C or C++ code that holds Python's lock",
    "sleeping": "its process {pid} waits, probably in C or C++ code that holds Python's lock",
    "disk": "its process {pid} waits for a disk or a network file system",
    "ended": "its process {pid} has ended",
    "other": "its process {pid} is {detail}",
    "unknown": "nothing is known of its process",
    "in words": "{detail}",
}
CAUSES: dict[Cause, str] = {
    "out of memory killer": (
        "the Linux kernel ended it for lack of memory (its out-of-memory killer ran meanwhile). Take smaller "
        "batches, fewer ranks on the host, or a job with more memory."
    ),
    "memory limit": (
        "The limit is set by {by}. Take smaller batches or fewer worker processes, load less of the data at once, or "
        "ask who runs the site for more."
    ),
    "allocation": "it could get no more memory ({evidence}). Take smaller batches or raise the limit.",
    "different sizes": (
        "ranks gave one collective of torch.distributed tensors of different sizes, at which gloo ends the process "
        "({evidence}). Give it one shape and dtype on all ranks."
    ),
    "failed check": "a check in C or C++ code failed: {evidence}.",
}
SIGNALS: dict[int, str] = {
    signal.SIGKILL: (
        "a `kill -9`, or a batch system that enforced a limit: no out-of-memory kill was counted on its host."
    ),
    signal.SIGSEGV: "a crash in C or C++ code (an invalid address), in an extension module or a ctypes call.",
    signal.SIGBUS: "a file or shared memory that became shorter than what is mapped of it: is /dev/shm or a disk full?",
    signal.SIGABRT: "C or C++ code called abort(); what it printed before stands in the rank's log.",
    signal.SIGILL: "a program built for another processor.",
    signal.SIGFPE: "a division by zero in C or C++ code.",
    signal.SIGTERM: "a user or a batch system asked it to end.",
    signal.SIGHUP: "its terminal, or the session that it was started from, was closed.",
    signal.SIGINT: "a user sent it SIGINT; %ddl interrupt ends a cell and keeps the ranks.",
    signal.SIGQUIT: "a user or a batch system asked it to end at once.",
    signal.SIGUSR1: "a batch system's warning before the walltime, which ends a program that has no handler for it.",
    signal.SIGUSR2: "a batch system's warning before the walltime, which ends a program that has no handler for it.",
    signal.SIGALRM: "a timer that the cell set (`signal.alarm`, `setitimer`) and for which it had no handler.",
    signal.SIGPIPE: "C or C++ code wrote to a pipe or a connection whose reader had closed it.",
    signal.SIGXCPU: "the limit on CPU time (`ulimit -t`) was reached.",
    signal.SIGXFSZ: "the limit on a file's size (`ulimit -f`) was reached.",
}
