"""The queue of PBS: the script of a job, and qsub, qstat and qdel.

Checked against recordings of OpenPBS and Torque, not against one that runs. Torque has the same commands; what differs
there is in `torque`.
Source: PBS Professional Reference Guide, qsub(1B), qstat(1B), "Job Attributes"; OpenPBS 23.06, doc/man1/qstat.1B.
"""

from __future__ import annotations

import getpass
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.launch.schedulers import torque
from jupyter_ddl.launch.schedulers.job_nodes import ranks_per_node_line
from jupyter_ddl.launch.schedulers.queue_commands import call, seconds_in, wall_time
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest, State

_TITLE = "PBS"
# One letter each. Source: PBS Professional Reference Guide, "Job States".
_STATES: dict[str, State] = {
    **dict.fromkeys("QHWT", "waiting"),
    **dict.fromkeys("RBSU", "running"),
    **dict.fromkeys("E", "ending"),
    **dict.fromkeys("FXMC", "ended"),
}
# A job whose shell a signal ended: 256 and the signal. qdel and the end of the wall time send SIGTERM, then SIGKILL.
_ENDED_BY_PBS = ("271", "265")
# The time that PBS needs to see that a limit has passed.
_LATE_S = 30
_TIME = "%a %b %d %H:%M:%S %Y"
# A line of `qstat -T`: the job's id first, its state and its estimated start last, which may have a space: "We 15".
_WAITING = re.compile(r"(?P<id>\d\S*) .* (?P<state>[A-Z]) +(?P<start>\S.*)")
_NO_ESTIMATE = ("--", "?")


def script(request: JobRequest, command: Sequence[str]) -> str:
    """Return the script of a job that runs a command on its first node.

    Raises:
        InvalidInput: the time is not HOURS:MINUTES.
    """
    is_torque = torque.is_here()
    wanted = torque.resources(request) if is_torque else _chunk(request)
    options = [f"-N {request.name}", f"-l {wanted}", f"-o {request.output}", "-j oe"]
    if (limit := wall_time(request)) is not None:
        options.append("-l walltime={:02d}:{:02d}:{:02d}".format(*limit))
    options += [f"-q {request.queue}"] if request.queue else []
    options += [f"-A {request.account}"] if request.account else []
    lines = [f"#PBS {option}" for option in (*options, *request.options)]
    setup = [*([ranks_per_node_line(request.ranks_per_node)] if is_torque else []), *request.setup]
    body = [f"cd {shlex.quote(request.folder)} || exit 1", *setup, f"exec {shlex.join(command)}", ""]
    return "\n".join(["#!/bin/bash", *lines, "", *body])


def _chunk(request: JobRequest) -> str:
    cores = request.ranks_per_node * (request.cores_per_rank or 1)
    gpus = f":ngpus={request.gpus_per_node}" if request.gpus_per_node else ""
    return f"select={request.nodes}:ncpus={cores}:mpiprocs={request.ranks_per_node}{gpus}"


def submit(text: str) -> str:
    """Submit a job by its script; return its id.

    Raises:
        ClusterError: PBS refuses it.
    """
    return call(_TITLE, ["qsub"], text).strip()


def job(number: str) -> Job | None:
    """Return what PBS knows of a job; None where it knows it no more.

    Raises:
        ClusterError: PBS does not answer.
    """
    record = _record(number)
    return None if record is None else _job(number, record)


def jobs() -> list[Job]:
    """Return this user's jobs that wait or run.

    Raises:
        ClusterError: PBS does not answer.
    """
    # -u has no JSON: the user's own jobs are asked for by their ids.
    ids = call(_TITLE, ["qselect", "-u", getpass.getuser()]).split()
    if torque.is_here():
        found = torque.records(call(_TITLE, ["qstat", "-f", "-1", *ids])) if ids else {}
    else:
        found = _records(call(_TITLE, ["qstat", "-f", "-F", "json", *ids])) if ids else {}
    # Torque's qselect names ended ones too, for some minutes.
    return [job for number, record in found.items() if (job := _job(number, record)).state != "ended"]


def cancel(number: str) -> None:
    """End a job, or take it from the queue.

    Raises:
        ClusterError: PBS refuses.
    """
    call(_TITLE, ["qdel", number])


def end_of(number: str) -> str | None:
    """Return how PBS ended a job: "TIMEOUT", "CANCELLED"; None where it did not, or that is not known.

    PBS keeps no reason: a job that it has ended when the wall time was over has reached that limit.
    """
    try:
        record = _record(number)
    except ClusterError:
        # Not on this node, or its server is down.
        return None
    status = "" if record is None else _text(record.get("Exit_status"))
    if record is None or status not in _ENDED_BY_PBS:
        return torque.ENDS.get(status)
    limit = seconds_in(_text_in(record, "Resource_List", "walltime"))
    used = seconds_in(_text_in(record, "resources_used", "walltime"))
    is_over = limit is not None and used is not None and used >= limit - _LATE_S
    return "TIMEOUT" if is_over else "CANCELLED"


def _record(number: str) -> dict[str, Any] | None:
    is_torque = torque.is_here()
    # -x: also one that has ended; Torque shows those without it, and takes it for XML.
    form = ["-f", "-1"] if is_torque else ["-x", "-f", "-F", "json"]
    try:
        printed = call(_TITLE, ["qstat", *form, number])
    except ClusterError as error:
        if "Unknown Job Id" in str(error):
            return None
        raise
    return (torque.records(printed) if is_torque else _records(printed)).get(number)


def _records(printed: str) -> dict[str, dict[str, Any]]:
    try:
        content = parse_json(printed)
    except ValueError as error:
        raise ClusterError(f"PBS must answer `qstat -F json` in JSON. Received: {printed[:200]!r}") from error
    found = content.get("Jobs") if isinstance(content, dict) else None
    records = found if isinstance(found, dict) else {}
    return {number: record for number, record in records.items() if isinstance(record, dict)}


def _job(number: str, record: dict[str, Any]) -> Job:
    state = _STATES.get(_text(record.get("job_state")), "ended")
    started_s = _seconds(_text(record.get("stime")))
    limit_s = seconds_in(_text_in(record, "Resource_List", "walltime"))
    expected_s = _seconds(_text_in(record, "estimated", "start_time")) if state == "waiting" else None
    return Job(
        number,
        _text(record.get("Job_Name")),
        state,
        _text(record.get("comment")),
        tuple(dict.fromkeys(re.findall(r"(?:^|\+)([^/+]+)/", _text(record.get("exec_host"))))),
        None if expected_s is None else _ahead(number, _text(record.get("queue"))),
        started_s if expected_s is None else expected_s,
        started_s + limit_s if state == "running" and started_s is not None and limit_s is not None else None,
    )


def _ahead(number: str, queue: str) -> int | None:
    """Return how many jobs of a queue are expected to start before one of them; None where PBS has no estimate of it.

    PBS shows users no other order of its queue. The scheduler estimates the jobs at the top of the queue, all of them
    where the site sets `est_start_time_freq`; a site may keep the estimates from users.
    Source: qstat(1B), -T: jobs without an estimate, or with one that has passed, come last.
    """
    try:
        printed = call(_TITLE, ["qstat", "-T", "-w", queue])
    except ClusterError:
        # The job is known nevertheless.
        return None
    rows = [found for line in printed.splitlines() if (found := _WAITING.fullmatch(line.strip())) is not None]
    waiting = [
        row["id"].partition(".")[0]
        for row in rows
        if _STATES.get(row["state"]) == "waiting" and row["start"] not in _NO_ESTIMATE
    ]
    # The table cuts what comes after the number.
    own = number.partition(".")[0]
    return waiting.index(own) if own in waiting else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _text_in(record: dict[str, Any], table: str, name: str) -> str:
    found = record.get(table)
    return _text(found.get(name)) if isinstance(found, dict) else ""


def _seconds(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text, _TIME))
    except ValueError:
        # It has not started.
        return None
