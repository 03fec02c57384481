"""`jupyter ddl export notebook.ipynb --slurm ...`: makes a batch job of a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "export"
HELP = "Make a batch job of a notebook: the same cells in the same order on as many ranks."
EXAMPLES = (
    ("export train.ipynb --slurm -N 4 --gpus-per-node 4 --time 2:00", "a job of 16 ranks"),
    ("export train.ipynb --script --sweep lr=0.1,0.01", "a script that runs the notebook with each value"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK.ipynb")
    kind = parser.add_mutually_exclusive_group(required=True)
    for name, title in (("slurm", "Slurm"), ("pbs", "PBS"), ("lsf", "LSF")):
        kind.add_argument(f"--{name}", action="store_const", const=name, dest="kind", help=f"a job of {title}")
    kind.add_argument(
        "--kubernetes", action="store_const", const="kubernetes", dest="kind", help="an MPIJob and a TrainJob"
    )
    kind.add_argument("--script", action="store_const", const="script", dest="kind", help="a plain script for a host")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where (default: NOTEBOOK-slurm, ...)")
    parser.add_argument("--force", action="store_true", help="replace an earlier export there")
    parser.add_argument(
        "-p", action="append", nargs=2, default=[], metavar=("NAME", "VALUE"), dest="parameters",
        help="set a parameter, as papermill's -p",
    )  # fmt: skip
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="NAME=V,V", help="a job for each value, and a page of them all"
    )
    parser.add_argument("-n", type=int, help="ranks in all (default: as many as the notebook says)")
    parser.add_argument("-N", "--nodes", type=int, help="how many nodes (default: 1)")
    parser.add_argument("--ntasks-per-node", type=int, metavar="N", help="ranks on each")
    parser.add_argument("--time", metavar="H:MM", help="the job's wall time (default: the queue's)")
    parser.add_argument("--partition", "--queue", help="the partition or queue (default: the site's)")
    parser.add_argument("--account", help="what is charged")
    parser.add_argument("--gpus-per-node", type=int, metavar="N")
    parser.add_argument("--cpus-per-task", type=int, metavar="N", help="cores for each rank")
    parser.add_argument("--option", action="append", default=[], metavar="'--X=Y'", help="any of the scheduler's")
    parser.add_argument("--profile", metavar="NAME", help="a place of the site's or yours")
    parser.add_argument("--image", help="of the pods of Kubernetes")
    parser.add_argument("--claim", metavar="NAME", help="the volume claim that has the notebook's folder")


def main(arguments: argparse.Namespace) -> int:
    """Write the folder, and say how to send it."""
    from jupyter_ddl.export.asking import OF_THE_JOB, export

    said = export(
        arguments.notebook,
        arguments.kind,
        {name: getattr(arguments, name) for name in OF_THE_JOB} | {"options": tuple(arguments.option)},
        ranks=arguments.n,
        profile=arguments.profile,
        image=arguments.image,
        claim=arguments.claim,
        parameters=[(name, value) for name, value in arguments.parameters],
        sweeps=arguments.sweep,
        folder=arguments.output,
        is_forced=arguments.force,
    )
    print(said)
    return 0
