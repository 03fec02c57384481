"""Defines the options of a line that submits a job: `%ddl submit`, which a notebook's export reads too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# The options whose names are fields of `Wanted`.
_OF_THE_JOB = (
    "nodes",
    "ntasks_per_node",
    "time",
    "partition",
    "account",
    "gpus_per_node",
    "cpus_per_task",
    "container",
    "launcher",
)


def add_submit_options(parser: ArgumentParser) -> None:
    """Add the options of `%ddl submit`."""
    parser.add_argument("-N", "--nodes", type=int, help="how many nodes (default: 1)")
    parser.add_argument("--ntasks-per-node", type=int, metavar="N", help="ranks on each (default: 1)")
    parser.add_argument("--time", metavar="H:MM", help="the job's wall time (default: the queue's)")
    parser.add_argument("-p", "--partition", "--queue", help="the partition or queue (default: the site's)")
    parser.add_argument("--account", help="what is charged")
    parser.add_argument("--gpus-per-node", type=int, metavar="N")
    parser.add_argument("--cpus-per-task", type=int, metavar="N", help="cores for each rank")
    parser.add_argument("--name", help="the cluster's name (default: default)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="'--X=Y'", help="any option of the scheduler's"
    )
    parser.add_argument("--profile", metavar="NAME", help="a place of the site's or yours: %%ddl profiles lists them")
    parser.add_argument("--container", metavar="IMAGE", help="run the ranks in this image of Apptainer's")
    parser.add_argument("--launcher", metavar="mpiexec|jsrun", help="what starts them in an LSF job (default: mpiexec)")
    parser.add_argument("--keep", action="store_true", help="let the job outlive this kernel")
    parser.add_argument(
        "--idle-stop", metavar="TIME", help="end the job after so long without a run: 45s, 30m, 2h, 1d or never (never)"
    )
    parser.add_argument("--rebuild", choices=("auto", "never"), default="auto", help="replace lost ranks in the job")
    parser.add_argument(
        "--print", action="store_true", dest="print_script", help="print the job's script, and send nothing"
    )


def given_of(arguments: Namespace) -> dict[str, Any]:
    """Return the fields of `Wanted` that such a line has, by their names; None for what was not given."""
    return {field: getattr(arguments, field) for field in _OF_THE_JOB} | {"options": tuple(arguments.option)}
