"""`jupyter ddl build-horovod`: builds and installs Horovod for the TensorFlow that is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.paths import HOROVOD_VARIABLE
from jupyter_ddl.protocol.number_texts import duration

if TYPE_CHECKING:
    import argparse

    from jupyter_ddl.horovod_build import Outcome

NAME = "build-horovod"
HELP = "Build and install Horovod for the TensorFlow that is installed."
EXAMPLES = (
    ("build-horovod", "for the TensorFlow and the GPUs that are here"),
    ("build-horovod --gpu none --target horovod", "without CUDA, into a folder of its own"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "--gpu",
        choices=("auto", "nccl", "none"),
        default="auto",
        help="exchange through NCCL: where TensorFlow, nvcc and NCCL are there for it (auto), or always, or never",
    )
    parser.add_argument(
        "--cpu",
        choices=("mpi", "ccl"),
        default="mpi",
        help="exchange on CPUs through MPI, or through oneCCL where its wheel or module is found",
    )
    parser.add_argument(
        "--target",
        type=Path,
        metavar="DIR",
        help=f"install into DIR, for a read-only image; the ranks find it through {HOROVOD_VARIABLE}=DIR (the default)",
    )
    parser.add_argument(
        "--force", action="store_true", help="build also where a Horovod that works, or a cached wheel, is there"
    )


def main(arguments: argparse.Namespace) -> int:
    """Build; return the exit status."""
    from jupyter_ddl.horovod_build import Progress, build_horovod

    progress = Progress(sys.stdout)
    outcome = build_horovod(
        progress, gpu=arguments.gpu, cpu=arguments.cpu, folder=arguments.target, force=arguments.force
    )
    progress.done(describe(outcome))
    return 0


def describe(outcome: Outcome) -> str:
    """Return the last lines that the user sees."""
    horovod = outcome.horovod
    done = f"{outcome.action} in {duration(outcome.elapsed_s)}" if outcome.log else "works and is left alone"
    lines = [
        f"Horovod {horovod.version} in {horovod.location} {done} (TensorFlow {outcome.tensorflow}; {outcome.exchange})."
    ]
    if outcome.folder and horovod.location == outcome.folder:
        lines.append(f"The ranks find it through: export {HOROVOD_VARIABLE}={outcome.folder}")
    return "\n".join(lines)
