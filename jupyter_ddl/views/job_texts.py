"""Makes the sentences on batch jobs: where one is, and why it brought no ranks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def waiting_text(
    title: str, state: str, reason: str, ahead: int | None, starts_at_s: float | None, nodes: Sequence[str]
) -> str:
    """Return where a job is that has brought no ranks yet, as one line.

    Args:
        title: of the job, e.g. "Slurm job 12".
        state: "waiting" or "running".
        reason: why it waits, in the scheduler's words.
        ahead: the jobs before it.
        starts_at_s: when it is expected to start, in seconds since the epoch.
        nodes: where it runs.
    """
    if state != "waiting":
        return f"{title} runs on {', '.join(nodes)}: its ranks are being started" if nodes else f"{title} starts"
    parts = [f"{title} waits in the queue"]
    if reason:
        parts.append(f"({reason})")
    text = " ".join(parts)
    if ahead is not None:
        text += f", {counted(ahead, 'job')} before it" if ahead else ", the next one"
    if starts_at_s is not None:
        text += f", expected to start {_when(starts_at_s)}"
    return text


def listed_text(
    title: str, state: str, reason: str, ahead: int | None, starts_at_s: float | None, nodes: Sequence[str]
) -> str:
    """Return where a job is that no notebook uses, as one line; arguments as of `waiting_text`."""
    if state == "waiting":
        return waiting_text(title, state, reason, ahead, starts_at_s, nodes)
    where = f" on {', '.join(nodes)}" if nodes else ""
    return f"{title} runs{where}" if state == "running" else f"{title} is being ended"


def _when(at_s: float) -> str:
    """Return "at 14:05", with the day where that is not today."""
    today, then = time.localtime(), time.localtime(at_s)
    is_today = today[:3] == then[:3]
    return time.strftime("at %H:%M" if is_today else "on %a %d %b at %H:%M", then)


def ended_text(title: str, reason: str, printed: str) -> str:
    """Return why a job has brought no ranks.

    Args:
        title: of the job.
        reason: how it ended, in the scheduler's words.
        printed: what it printed last.
    """
    last = f"; it printed last:\n{printed}\n" if printed else ". "
    return f"A job must run to bring ranks. Received: {_ended(title, reason)}{last}%ddl submit sends another one."


def unshared_text(title: str, reason: str, folder: Path, variable: str) -> str:
    """Return why a job has brought no ranks that ran on nodes, and wrote nothing into its folder.

    Args:
        title: of the job.
        reason: how it ended, in the scheduler's words.
        folder: the job's.
        variable: of the environment, which says where such folders are.
    """
    return (
        f"A job's nodes must share its folder. Received: {_ended(title, reason)}, and nothing that it printed is in "
        f"{folder}. Set {variable} to a folder that they share before JupyterLab starts."
    )


def _ended(title: str, reason: str) -> str:
    return f"{title} has ended ({reason})" if reason else f"{title} has ended"


def interrupted_text(title: str, job: str) -> str:
    """Return what becomes of a job that is not waited for any more."""
    return (
        f"Ranks are waited for until their job runs. Received: an interrupt; {title} stays where it is. "
        f"%ddl attach {job} waits for it again, %ddl jobs --cancel {job} ends it."
    )
