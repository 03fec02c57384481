"""Stands for LSF's jsrun in tests: checks options and resource files by the documented grammar, and starts the ranks.

    jsrun OPTIONS PROGRAM ARGS...

It starts them by mpiexec on the hosts of `LSB_DJOB_HOSTFILE`, the first of which is the launch node, with the variables
that jsrun gives each rank. `JSRUN_SSH` is the command that reaches the hosts; `JSRUN_CALLS` a file that gets what was
requested.
Source: IBM Spectrum LSF 10.1, "jsrun command", "Explicit Resource File (ERF) format"; OLCF's Summit user guide, "Job
Launcher (jsrun)"; hpc/Spindle, the options of its launcher parser.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Those that take a value; jsrun stops at the first word that is none.
OPTIONS = {
    "-n": "nrs",
    "-r": "rs_per_host",
    "-a": "tasks_per_rs",
    "-c": "cpu_per_rs",
    "-g": "gpu_per_rs",
    "-d": "launch_distribution",
    "-b": "bind",
}
LONG = {f"--{name}": name for name in (*OPTIONS.values(), "erf_input")}
# Symbols of a resource file, and their values.
PREAMBLE = {
    "overlapping_rs": ("error", "warn", "allow"),
    "oversubscribe_cpu": ("error", "warn", "allow"),
    "oversubscribe_gpu": ("error", "warn", "allow"),
    "oversubscribe_mem": ("error", "warn", "allow"),
    "cpu_index_using": ("logical", "physical"),
    "launch_distribution": ("packed", "cyclic"),
}
_RANGES = r"(?:\{\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\}|\*)"
_RANK = re.compile(
    r"rank: (?P<rank>\d+): \{ (?:host|hostname): (?P<host>\S+); "
    rf"cpu: (?P<cpu>\{{\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\}}) ; gpu: {_RANGES} ; mem: {_RANGES} \}}"
)
# What each rank gets.
_WRAPPED = (
    "export JSM_NAMESPACE_RANK=$OMPI_COMM_WORLD_RANK JSM_NAMESPACE_SIZE=$OMPI_COMM_WORLD_SIZE "
    'JSM_NAMESPACE_LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK; exec "$@"'
)
_AGENT = "PRTE_MCA_plm_ssh_agent"
_OF_MPI = ("OMPI_", "PRTE_", "PMIX_")


class Refused(Exception):
    """jsrun would not take this."""


@dataclass
class Step:
    """A job step that was requested."""

    options: dict[str, str] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)
    # How many ranks each host gets, in order.
    ranks: dict[str, int] = field(default_factory=dict)


def parsed(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options by their long names, and the program."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, is_joined, value = word.partition("=")
        known = OPTIONS.get(word) or LONG.get(name)
        if known is None or (is_joined and name not in LONG):
            raise Refused(f"unknown option {word}")
        if known in options:
            raise Refused(f"{known} given twice")
        if not is_joined:
            if not rest:
                raise Refused(f"{word} needs a value")
            value = rest.pop(0)
        options[known] = value
    if not rest:
        raise Refused("no program")
    return options, rest


def step_of(arguments: list[str], hosts: list[str]) -> Step:
    """Return the step that a command line asks for on the hosts of a job."""
    options, program = parsed(arguments)
    if "erf_input" in options:
        if len(options) > 1:
            raise Refused("a resource file goes without other options")
        return Step(options, program, ranks_of_file(Path(options["erf_input"]).read_text(), hosts))
    for name in ("nrs", "rs_per_host", "tasks_per_rs"):
        if not re.fullmatch(r"[1-9]\d*", options.get(name, "")):
            raise Refused(f"{name} must be a number of at least 1")
    for name, everything in (("cpu_per_rs", "ALL_CPUS"), ("gpu_per_rs", "ALL_GPUS")):
        if not re.fullmatch(rf"\d+|{everything}", options.get(name, "1")):
            raise Refused(f"{name} must be a number or {everything}")
    if not re.fullmatch(r"none|rs|packed(:\d+)?|proportional-packed(:\d+)?", options.get("bind", "none")):
        raise Refused("bind must be none, rs or packed")
    if not re.fullmatch(r"packed|cyclic|plane:\d+", options.get("launch_distribution", "packed")):
        raise Refused("launch_distribution must be packed, cyclic or plane")
    sets, each, tasks = (int(options[name]) for name in ("nrs", "rs_per_host", "tasks_per_rs"))
    if sets > each * len(hosts):
        raise Refused(f"{sets} resource sets do not fit onto {len(hosts)} hosts")
    return Step(options, program, dict.fromkeys(hosts[: sets // each], each * tasks))


def ranks_of_file(text: str, hosts: list[str]) -> dict[str, int]:
    """Return how many ranks each host gets by a resource file."""
    ranks: dict[str, int] = {}
    number = 0
    for line in filter(None, text.splitlines()):
        symbol, _, value = line.partition(": ")
        if symbol in PREAMBLE:
            if value not in PREAMBLE[symbol]:
                raise Refused(f"{symbol} must be one of {', '.join(PREAMBLE[symbol])}")
            continue
        found = _RANK.fullmatch(line)
        if found is None:
            raise Refused(f"no line of a resource file: {line}")
        if int(found["rank"]) != number:
            raise Refused(f"rank {number} must be next")
        if found["host"] not in hosts:
            raise Refused(f"{found['host']} is not in the job")
        ranks[found["host"]] = ranks.get(found["host"], 0) + 1
        number += 1
    return ranks


def main(arguments: list[str]) -> None:
    """Become mpiexec."""
    lines = Path(os.environ["LSB_DJOB_HOSTFILE"]).read_text().split()
    hosts = list(dict.fromkeys(lines[1:]))
    try:
        step = step_of(arguments, hosts)
    except Refused as refused:
        sys.exit(f"jsrun: {refused}")
    calls = os.environ.get("JSRUN_CALLS")
    if calls:
        file = step.options.get("erf_input")
        resources = Path(file).read_text() if file else ""
        Path(calls).write_text(json.dumps({"options": step.options, "ranks": step.ranks, "file": resources}))
    if "JSRUN_SSH" in os.environ:
        os.environ[_AGENT] = shlex.join([*shlex.split(os.environ["JSRUN_SSH"]), "-o", "BatchMode=yes"])
    named = ",".join(f"{host}:{count}" for host, count in step.ranks.items())
    # jsrun hands all variables on.
    taken = [name for name in os.environ if re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith(_OF_MPI)]
    carried = [part for name in taken if name not in ("_", "TMPDIR") for part in ("-x", name)]
    count = str(sum(step.ranks.values()))
    mpiexec = [os.environ.get("JSRUN_MPIEXEC", "mpiexec"), "-n", count, "--bind-to", "none", "-H", named, *carried]
    command = [*mpiexec, "/bin/sh", "-c", _WRAPPED, "jsrun", *step.program]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
