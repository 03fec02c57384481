"""The queue of LSF: the script of a job, and bsub, bjobs and bkill.

Checked against recordings of LSF 10.1, not against an LSF that runs.
Source: IBM Spectrum LSF 10.1 command reference, bsub, bjobs ("-o", "-json"), bqueues, bkill; "Termination reasons
displayed by bacct, bhist, and bjobs".
"""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.launch.place import JSRUN
from jupyter_ddl.launch.schedulers.job_nodes import ranks_per_node_line
from jupyter_ddl.launch.schedulers.queue_commands import call, seconds_in, wall_time
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.paths import LAUNCHER_VARIABLE
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest, State

_TITLE = "LSF"
_FIELDS = "jobid job_name stat pend_reason exec_host time_left exit_reason queue"
# LSF writes no year unless the site sets LSB_DISPLAY_YEAR.
_TIME = re.compile(
    r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<day>\d{1,2}) (?P<hour>[01]\d|2[0-3]):"
    r"(?P<minute>[0-5]\d)(?::[0-5]\d)?(?: (?P<year>\d{4}))?"
)
_LONG_S = 30 * 24 * 3600.0
_STATES: dict[str, State] = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT"), "waiting"),
    **dict.fromkeys(("RUN", "USUSP", "SSUSP", "PROV", "UNKWN"), "running"),
}
# LSF's reasons, and Slurm's words for them, by which a fault's text is chosen.
_ENDS = {
    "TERM_OWNER": "CANCELLED",
    "TERM_FORCE_OWNER": "CANCELLED",
    "TERM_ADMIN": "CANCELLED",
    "TERM_FORCE_ADMIN": "CANCELLED",
    "TERM_RUNLIMIT": "TIMEOUT",
    "TERM_PREEMPT": "PREEMPTED",
    "TERM_MEMLIMIT": "OUT_OF_MEMORY",
    "TERM_ZOMBIE": "NODE_FAIL",
}


def script(request: JobRequest, command: Sequence[str]) -> str:
    """Return the script of a job that runs a command on its first node.

    Raises:
        InvalidInput: the time is not HOURS:MINUTES.
    """
    is_by_jsrun = request.launcher == JSRUN
    options = [f"-J {request.name}", *([f"-nnodes {request.nodes}"] if is_by_jsrun else _slots(request))]
    options += [f"-o {request.output}", f"-cwd {shlex.quote(request.folder)}"]
    if request.cores_per_rank and not is_by_jsrun:
        options.append(f'-R "affinity[core({request.cores_per_rank})]"')
    if (limit := wall_time(request)) is not None:
        hours, minutes, seconds = limit
        # LSF counts minutes.
        options.append(f"-W {hours}:{minutes + (seconds > 0):02d}")
    options += [f'-gpu "num={request.gpus_per_node}"'] if request.gpus_per_node and not is_by_jsrun else []
    options += [f"-q {request.queue}"] if request.queue else []
    options += [f"-P {request.account}"] if request.account else []
    lines = [f"#BSUB {option}" for option in (*options, *request.options)]
    setup = [*(_for_jsrun(request) if is_by_jsrun else []), *request.setup]
    return "\n".join(["#!/bin/bash", *lines, "", *setup, f"exec {shlex.join(command)}", ""])


def _slots(request: JobRequest) -> list[str]:
    per_node = request.ranks_per_node
    return [f"-n {request.nodes * per_node}", f'-R "span[ptile={per_node}]"']


def _for_jsrun(request: JobRequest) -> list[str]:
    """Return the lines for ranks that start by jsrun: the job has whole nodes, and LSF counts their cores.

    Source: OLCF's Summit user guide, "Common bsub Options", -nnodes.
    """
    return [f"export {LAUNCHER_VARIABLE}={JSRUN}", ranks_per_node_line(request.ranks_per_node)]


def submit(text: str) -> str:
    """Submit a job by its script; return its number.

    Raises:
        ClusterError: LSF refuses it.
    """
    printed = call(_TITLE, ["bsub"], text)
    found = re.search(r"Job <(\d+)> is submitted", printed)
    if found is None:
        raise ClusterError(f"LSF must name the job that it takes. Received: {printed.strip()[:500]}")
    return found[1]


def job(number: str) -> Job | None:
    """Return what LSF knows of a job; None where it knows it no more.

    Raises:
        ClusterError: LSF does not answer.
    """
    try:
        records = _records("-a", number)
    except ClusterError as error:
        if "is not found" in str(error):
            return None
        raise
    return _job(records[0]) if records else None


def jobs() -> list[Job]:
    """Return this user's jobs that wait or run.

    Raises:
        ClusterError: LSF does not answer.
    """
    try:
        return [_job(record) for record in _records()]
    except ClusterError as error:
        if "No unfinished job found" in str(error):
            return []
        raise


def cancel(number: str) -> None:
    """End a job, or take it from the queue.

    Raises:
        ClusterError: LSF refuses.
    """
    call(_TITLE, ["bkill", number])


def end_of(number: str) -> str | None:
    """Return how LSF ended a job, e.g. "TIMEOUT"; None where it did not, or that is not known."""
    try:
        records = _records("-a", number)
    except ClusterError:
        # Not on this host, or LSF is down.
        return None
    found = re.match(r"TERM_\w+", records[0].get("EXIT_REASON", "")) if records else None
    return None if found is None else _ENDS.get(found[0], found[0])


def _records(*arguments: str, fields: str = _FIELDS) -> list[dict[str, str]]:
    printed = call(_TITLE, ["bjobs", "-json", "-o", fields, *arguments])
    try:
        content: Any = parse_json(printed)
    except ValueError as error:
        raise ClusterError(f"LSF must answer `bjobs -json` in JSON. Received: {printed[:200]!r}") from error
    found = content.get("RECORDS", []) if isinstance(content, dict) else []
    return [{name: str(value) for name, value in one.items()} for one in found if isinstance(one, dict)]


def _job(record: dict[str, str]) -> Job:
    state = _STATES.get(record.get("STAT", ""), "ended")
    # "1:30 L": hours and minutes left of the limit.
    left_s = seconds_in(record.get("TIME_LEFT", "").partition(" ")[0] + ":00")
    reason = record.get("PEND_REASON", "") if state == "waiting" else record.get("EXIT_REASON", "")
    number = record.get("JOBID", "")
    return Job(
        number,
        record.get("JOB_NAME", ""),
        state,
        reason,
        tuple(dict.fromkeys(name.rpartition("*")[2] for name in record.get("EXEC_HOST", "").split(":") if name)),
        ahead=_ahead(number, record.get("QUEUE", "")) if state == "waiting" else None,
        starts_at_s=_expected_s(number) if state == "waiting" else None,
        ends_at_s=time.time() + left_s if state == "running" and left_s is not None else None,
    )


def _ahead(number: str, queue: str) -> int | None:
    """Return how many jobs wait before one in its queue; None where that is not known.

    A site may keep others' jobs from a user (`SECURE_JOB_INFO_LEVEL`). Their tasks still count in `bqueues`: where it
    has more than the jobs that are shown, the place is not known.
    Source: IBM Spectrum LSF 10.1 command reference, btop: bjobs shows pending jobs in the order in which they are
    considered for dispatch; bqueues, PEND: the tasks of all pending jobs.
    """
    try:
        shown = _records("-p", "-u", "all", "-q", queue, fields="jobid stat min_req_proc")
        rows = [line.split() for line in call(_TITLE, ["bqueues", queue]).splitlines()]
    except ClusterError:
        # The job is known nevertheless.
        return None
    waiting = [one for one in shown if one.get("STAT") == "PEND"]
    tasks = sum(max(1, _count(one.get("MIN_REQ_PROC", ""))) for one in waiting)
    head, *others = rows or [[]]
    table = dict(zip(head, others[0], strict=False)) if others else {}
    numbers = [one.get("JOBID", "") for one in waiting]
    is_whole = table.get("PEND", "").isdecimal() and int(table["PEND"]) <= tasks
    return numbers.index(number) if is_whole and number in numbers else None


def _expected_s(number: str) -> float | None:
    """Return when LSF expects a job to start; None where it makes no estimates, or is older than they are.

    Source: IBM Spectrum LSF 10.1 configuration reference, LSB_ENABLE_ESTIMATION.
    """
    try:
        records = _records(number, fields="estimated_sim_start_time")
    except ClusterError:
        return None
    return _next_time(records[0].get("ESTIMATED_SIM_START_TIME", ""), time.time()) if records else None


def _next_time(text: str, now_s: float) -> float | None:
    """Return when "Nov 25 14:02" or "Nov 25 14:02:07 2026" is next; without a year, none that has long passed."""
    found = _TIME.search(text)
    if found is None:
        return None
    year = int(found["year"] or time.localtime(now_s).tm_year)
    clock = f"{found['month']} {found['day']} {found['hour']}:{found['minute']}"
    read = time.mktime(time.strptime(f"{clock} {year}", "%b %d %H:%M %Y"))
    if found["year"] is None and read < now_s - _LONG_S:
        return time.mktime(time.strptime(f"{clock} {year + 1}", "%b %d %H:%M %Y"))
    return read


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0
