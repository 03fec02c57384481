"""Starts ranks by jsrun, the launcher of IBM's Job Step Manager, within a job of LSF.

A job step takes resource sets. Here each host is one, with all of its cores and GPUs, and has as many tasks as it takes
ranks, bound to nothing: each rank then takes its own share, as under mpiexec. Where hosts take different numbers of
ranks, or not all of a job's hosts take some, an explicit resource file (ERF) names the host of each rank.

Checked against the documented options and files, not against a jsrun that runs.
Source: IBM Spectrum LSF 10.1, Job Step Manager 10.4, "jsrun command", "Explicit Resource File (ERF) format"; OLCF's
Summit user guide, "Job Launcher (jsrun)"; horovod 0.28.1, horovod/runner/js_run.py.

Runs on: kernel.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.launch.place import JSRUN
from jupyter_ddl.launch.schedulers.known import place_of_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jupyter_ddl.launch.place import Place

# Resource sets overlap, since all ranks of a host may use the whole of it. `logical` counts what the job may use.
_PREAMBLE = (
    "overlapping_rs: allow",
    "oversubscribe_cpu: allow",
    "oversubscribe_gpu: allow",
    "oversubscribe_mem: allow",
    "cpu_index_using: logical",
)


def command(place: Place, n: int, cores: Mapping[str, int]) -> list[str]:
    """Return the argv that starts `n` ranks; the program and its arguments come after it.

    Args:
        place: the hosts.
        n: ranks.
        cores: how many each host has, hardware threads counted, by the name with which the host was given.

    Raises:
        InvalidInput: jsrun is not on PATH.
    """
    jsrun = shutil.which(JSRUN)
    if jsrun is None:
        raise InvalidInput(
            "Ranks start by jsrun where it is on PATH.",
            f"{JSRUN}, which is not",
            "Load its module before JupyterLab starts, or pass --launcher mpiexec.",
        )
    counts = ranks_on(place, n)
    if len(set(counts)) == 1 and _is_whole_job(place):
        return [jsrun, *resource_sets(len(counts), counts[0])]
    return [jsrun, "--erf_input", str(_written(resource_file(place, counts, cores)))]


def ranks_on(place: Place, n: int) -> list[int]:
    """Return how many of `n` ranks each host takes: its slots where they are as many, else the same on all."""
    if n == place.slots:
        return [one.slots for one in place.hosts]
    # LSF counts cores where a job takes whole hosts: these are no numbers of ranks.
    each, more = divmod(n, len(place.hosts))
    return [each + (number < more) for number in range(len(place.hosts))]


def resource_sets(hosts: int, ranks_each: int) -> list[str]:
    """Return the options for a resource set on each host of a job, with as many ranks in each."""
    options = {"-n": hosts, "-r": 1, "-a": ranks_each, "-c": "ALL_CPUS", "-g": "ALL_GPUS", "-d": "packed", "-b": "none"}
    return [part for option, value in options.items() for part in (option, str(value))]


def resource_file(place: Place, counts: Sequence[int], cores: Mapping[str, int]) -> str:
    """Return the text of an explicit resource file.

    Args:
        place: the hosts.
        counts: how many ranks each takes.
        cores: as `command` has them.
    """
    lines, rank = list(_PREAMBLE), 0
    for one, count in zip(place.hosts, counts, strict=True):
        last = max(1, cores.get(one.host, 1)) - 1
        lines.append("")
        there = f"{{ hostname: {one.host}; cpu: {{0-{last}}} ; gpu: * ; mem: * }}"
        lines += [f"rank: {number}: {there}" for number in range(rank, rank + count)]
        rank += count
    return "\n".join([*lines, ""])


def _is_whole_job(place: Place) -> bool:
    whole = place_of_job(os.environ)
    return whole is not None and {one.host for one in whole.hosts} == {one.host for one in place.hosts}


def _written(text: str) -> Path:
    """Write a resource file where only this user can change it; the same text has the same file."""
    folder = private_folder(paths.resource_files_dir(), variable=paths.RUNTIME_VARIABLE)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.erf"
    files.replace(file, text)
    return file
