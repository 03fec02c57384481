"""The spellings of other launchers that `jupyter ddl run` takes: horovodrun's, ddlrun's, mpirun's.

What none of ours means is refused by its name, with what to write instead. docs/hpc.md has the same as a table.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import DEFAULT_SSH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.launch.place import Place

_LEFT_OUT = "Leave it out"
# An option of theirs -> what to do instead, as a sentence.
REFUSED: dict[str, str] = {
    # horovodrun's. Source: horovod 0.28.1, horovod/runner/launch.py
    **dict.fromkeys(("-cb", "--check-build"), "Run: jupyter ddl doctor"),
    "--gloo": f"{_LEFT_OUT}: ranks communicate by MPI, and NCCL where Horovod was built with it.",
    "--jsrun": "Write --launcher jsrun.",
    "--start-timeout": f"{_LEFT_OUT}: hosts are looked at before ranks start, and one that is silent is named.",
    "--disable-cache": f"{_LEFT_OUT}: hosts are looked at each time.",
    "--output-filename": f"{_LEFT_OUT}: each rank's output is recorded. Read it with: jupyter ddl logs",
    "--config-file": "Write its settings as --env NAME=VALUE.",
    "--prefix-output-with-timestamp": f"{_LEFT_OUT}: the run's record has the times. Read it with: jupyter ddl show",
    "--fusion-threshold-mb": "Write --env HOROVOD_FUSION_THRESHOLD=BYTES.",
    "--cycle-time-ms": "Write --env HOROVOD_CYCLE_TIME=MS.",
    "--cache-capacity": "Write --env HOROVOD_CACHE_CAPACITY=N.",
    "--hierarchical-allreduce": "Write --env HOROVOD_HIERARCHICAL_ALLREDUCE=1.",
    "--hierarchical-allgather": "Write --env HOROVOD_HIERARCHICAL_ALLGATHER=1.",
    "--autotune": "Write --env HOROVOD_AUTOTUNE=1.",
    "--autotune-log-file": "Write --env HOROVOD_AUTOTUNE_LOG=FILE.",
    "--timeline-filename": "Write --env HOROVOD_TIMELINE=FILE.",
    "--timeline-mark-cycles": "Write --env HOROVOD_TIMELINE_MARK_CYCLES=1.",
    "--no-stall-check": "Write --stall-after 0.",
    "--stall-check-warning-time-seconds": "Write --stall-after S.",
    "--stall-check-shutdown-time-seconds": "Write --stall-after S --on-stall abort.",
    "--num-nccl-streams": "Write --env HOROVOD_NUM_NCCL_STREAMS=N.",
    "--thread-affinity": "Write --env HOROVOD_THREAD_AFFINITY=CORES.",
    "--log-level": "Write --env HOROVOD_LOG_LEVEL=LEVEL.",
    "--mpi-args": "Write MPI's settings as variables: --env OMPI_MCA_NAME=VALUE.",
    "--binding-args": f"{_LEFT_OUT}: each rank takes its share of its host's cores.",
    "--mpi-threads-disable": "Write --env HOROVOD_MPI_THREADS_DISABLE=1.",
    **dict.fromkeys(
        (*("--min-np", "--min-num-proc", "--max-np", "--max-num-proc"), "--host-discovery-script", "--slots-per-host"),
        "Name the hosts with -H; --checkpoint DIR resumes a training on other hosts.",
    ),
    # ddlrun's.
    "--rankfile": "Write a hostfile with lines such as `nodea slots=4`, and pass --hostfile FILE.",
    "--mpiarg": "Write MPI's settings as variables: --env OMPI_MCA_NAME=VALUE.",
    "--mode": f"{_LEFT_OUT}: MPI, or NCCL, chooses the algorithm by topology.",
    "--no_ddloptions": f"{_LEFT_OUT}: there are no DDL_OPTIONS.",
    # torchrun's. Source: torch 2.13, torch/distributed/run.py
    **dict.fromkeys(("--nproc-per-node", "--nproc_per_node"), "Write -n N for one host, or -H nodea:N,nodeb:N."),
    **dict.fromkeys(
        ("--nnodes", "--node-rank", "--node_rank", "--master-addr", "--master_addr", "--master-port", "--master_port"),
        "Write -H nodea:4,nodeb:4, once, on one of the hosts; in a batch job nothing.",
    ),
    **dict.fromkeys(
        ("--rdzv-backend", "--rdzv_backend", "--rdzv-endpoint", "--rdzv_endpoint", "--rdzv-id", "--rdzv_id"),
        f"{_LEFT_OUT}: MPI starts the ranks, and they find each other.",
    ),
    "--standalone": f"{_LEFT_OUT}: without -H all ranks are on this host.",
    **dict.fromkeys(("--max-restarts", "--max_restarts"), f"{_LEFT_OUT}: --checkpoint DIR resumes what runs again."),
    **dict.fromkeys(("--log-dir", "--log_dir"), f"{_LEFT_OUT}: each rank's output is recorded: jupyter ddl logs"),
    **dict.fromkeys(("-m", "--module"), "Name the module's file: jupyter ddl run -n 2 PACKAGE/MODULE.py"),
}
# What is the same without them.
IGNORED = {
    "--verbose": "what happens is shown and recorded anyway",
    "--mpi": "ranks communicate by MPI anyway",
    "--tcp": "MPI chooses the network",
    "--skipchecks": "hosts are looked at each time",
}
# An option of mpirun's -> the only value of it that is what we do anyway.
_SAME = {
    ("-bind-to", "--bind-to"): ("none", "Leave it out: each rank takes its share of its host's cores."),
    ("-map-by", "--map-by"): ("slot", "Leave it out: a host is filled before the next one gets a rank."),
}
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")


def add_spellings(parser: argparse.ArgumentParser) -> None:
    """Add the options of other launchers; those that stand for ours set the same."""
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS}
    parser.add_argument("-np", "--num-proc", dest="n", type=int, **hidden)
    parser.add_argument("-p", "--ssh-port", type=int, metavar="PORT", **hidden)
    parser.add_argument("-i", "--ssh-identity-file", metavar="FILE", **hidden)
    parser.add_argument("-ppn", "--accelerators", dest="slots_each", type=int, metavar="N", **hidden)
    parser.add_argument("-x", dest="exported", action="append", default=[], metavar="NAME[=VALUE]", **hidden)
    for option, reason in IGNORED.items():
        parser.add_argument(option, dest="ignored", action=_Ignore, const=reason, nargs=0, **hidden)
    for options, (value, remedy) in _SAME.items():
        parser.add_argument(*options, dest="ignored", action=_OnlyAs, const=(value, remedy), **hidden)
    for option, remedy in REFUSED.items():
        parser.add_argument(option, dest="ignored", action=_Refuse, const=remedy, nargs="?", **hidden)


def ssh_command(arguments: argparse.Namespace) -> str | None:
    """Return what `--ssh` says, with the port and the key of horovodrun's options; None without any of them."""
    options = []
    if arguments.ssh_port is not None:
        options += ["-p", str(arguments.ssh_port)]
    if arguments.ssh_identity_file is not None:
        options += ["-i", arguments.ssh_identity_file]
    command: str | None = arguments.ssh
    return f"{command or DEFAULT_SSH} {shlex.join(options)}" if options else command


def variables(arguments: argparse.Namespace) -> list[str]:
    """Return `--env`, and mpirun's `-x NAME`, which takes the value here, as NAME=VALUE.

    Raises:
        InvalidInput: `-x` names a variable that is not set here.
    """
    exported = []
    for given in arguments.exported:
        if "=" not in given and given not in os.environ:
            raise InvalidInput("-x carries a variable of this process.", f"-x {given}", f"Write --env {given}=VALUE.")
        exported.append(given if "=" in given else f"{given}={os.environ[given]}")
    return [*exported, *arguments.env]


def with_slots(place: Place, hosts: str | None, slots_each: int | None) -> Place:
    """Return a place with so many slots on each host, as ddlrun's `--accelerators` and mpirun's `-ppn` say.

    Args:
        place: where ranks go.
        hosts: as `-H` has them: one with a number of its own keeps it.
        slots_each: of every other host; None to leave all as they are.

    Raises:
        InvalidInput: it is no number of ranks.
    """
    if slots_each is None or place.is_here:
        return place
    if slots_each < 1:
        raise InvalidInput(
            "A host takes at least 1 rank.", f"{slots_each}", "Write --accelerators 4, or -H nodea:4,nodeb:4."
        )
    own = {part.strip().rpartition(":")[0].strip("[]") for part in (hosts or "").split(",") if ":" in part}
    return replace(
        place,
        hosts=tuple(one if one.host in own else replace(one, slots=slots_each) for one in place.hosts),
    )


def without_python(given: Sequence[str]) -> list[str]:
    """Return the script and its arguments without the `python`, or `python3 -u`, that other launchers need.

    Raises:
        InvalidInput: Python has another option there.
    """
    rest = list(given)
    if not rest or not _PYTHON.fullmatch(rest[0]):
        return rest
    python = rest.pop(0)
    # Ranks write unbuffered lines anyway.
    while rest[:1] == ["-u"]:
        del rest[0]
    if rest and rest[0].startswith("-"):
        raise InvalidInput(
            "What runs on the ranks must be a Python script.",
            f"{python} {rest[0]}",
            "Name the file: jupyter ddl run [python] SCRIPT.py [ARGS ...]",
        )
    return rest


class _Ignore(argparse.Action):
    """Takes an option that changes nothing, and says so; `const` is why."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # noqa: ARG002
        """Say so."""
        print(f"NOTE: {option_string} has no effect here: {self.const}.", file=sys.stderr)


class _Refuse(argparse.Action):
    """Refuses an option by its name; `const` is what to do instead."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # noqa: ARG002
        """Refuse it."""
        raise InvalidInput("`jupyter ddl run` has no such option.", str(option_string), str(self.const))


class _OnlyAs(argparse.Action):
    """Takes the one value that changes nothing; `const` is that, and what to do in place of others."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:  # noqa: ARG002
        """Check the value."""
        wanted, remedy = self.const
        if values != wanted:
            raise InvalidInput(f"{option_string} can only be {wanted}.", str(values), remedy)
