"""`jupyter ddl bench scaling`: measures how a model's training scales, beside TensorFlow's strategies."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.commands.parsers import options_in
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    import argparse

NAME = "bench"
HELP = (
    "Measure how a training scales: images/s, efficiency, the split of a step, time to a loss; and predict more ranks."
)
EXAMPLES = (
    ("bench scaling --model cnn --ranks 1,2", "how the course's network scales on this machine, with a plot"),
    (
        "bench scaling --model model.py --ranks 1,2,4 --loss 0.1",
        "a file that defines yours, and the time until its loss is 0.1",
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    kinds = parser.add_subparsers(title="benchmarks", required=True, metavar="scaling")
    scaling = kinds.add_parser("scaling", help=HELP, description=HELP)
    scaling.add_argument(
        "--model",
        default="cnn",
        metavar="cnn|hep-cnn|cosmogan|resnet50|transformer|FILE.py",
        help="what is trained (cnn); docs/scaling.md says what a file defines",
    )
    scaling.add_argument("--ranks", default="1,2", help="numbers of ranks, e.g. 1,2,4,8 (1,2)")
    scaling.add_argument(
        "--mode", choices=["weak", "strong"], default="weak", help="what stays: a rank's batch, or all"
    )
    scaling.add_argument("--against", default="", metavar="mirrored,multiworker,parameter-server,grpc")
    scaling.add_argument(
        "--batch-size", type=int, help="of a rank (weak), or of all ranks (strong); default: the model's"
    )
    scaling.add_argument("--size", type=int, help="pixels along an edge, or tokens (default: the model's)")
    scaling.add_argument("--steps", type=int, default=40, help="timed steps of each run (40)")
    scaling.add_argument("--warm-up", type=int, default=10, help="steps before them (10)")
    scaling.add_argument("--rounds", type=int, default=3, help="runs of each point, in turns (3)")
    scaling.add_argument("--threads", type=int, help="of a rank (default: the cores by the most ranks, at least 1)")
    scaling.add_argument("--loss", type=float, help="the loss to reach (default: the lowest that all points reached)")
    scaling.add_argument("--out", type=Path, help="the folder (default: scaling-MODEL-TIME)")
    scaling.add_argument("--run-options", default="", metavar="'-H a:2,b:2'", help="more options of `jupyter ddl run`")
    scaling.add_argument("--no-plots", action="store_true", help="no pictures, which take matplotlib")


def main(arguments: argparse.Namespace) -> int:
    """Measure, write and print; return the exit status."""
    from jupyter_ddl.scaling import bench, plots, sides

    model = sides.describe(arguments.model)
    ranks = _numbers(arguments.ranks)
    rivals = [name for name in arguments.against.split(",") if name]
    sides.check_rivals(rivals)
    if not arguments.no_plots:
        plots.check_there()
    for name in ("steps", "rounds", "batch_size", "size", "threads"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InvalidInput(f"--{name.replace('_', '-')} must be at least 1.", value, "Pass more.")
    if arguments.loss is not None and not math.isfinite(arguments.loss):
        raise InvalidInput(
            "--loss is a number that training can reach.", arguments.loss, "Leave it out for the lowest."
        )
    plan = sides.Plan(
        str(Path(arguments.model).absolute()) if arguments.model.endswith(".py") else arguments.model,
        arguments.size or model.size,
        max(1, arguments.warm_up),
        arguments.steps,
        arguments.threads or sides.threads_for(ranks),
        tuple(options_in("--run-options", arguments.run_options)),
    )
    folder = arguments.out or Path(f"scaling-{model.name}-{time.strftime('%Y-%m-%dT%H-%M-%S')}")
    points = bench.combinations(ranks, rivals, arguments.batch_size or model.batch_size, arguments.mode)
    measured = bench.run(plan, points, arguments.rounds)
    found = bench.results(plan, model.source, arguments.mode, measured, arguments.loss)
    print(bench.write(found, folder, pictures=not arguments.no_plots))
    print(f"\n{folder}/ has results.json, results.md{'' if arguments.no_plots else ' and the plots'}.")
    return 0


def _numbers(given: str) -> list[int]:
    try:
        numbers = sorted({int(number) for number in given.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise InvalidInput("--ranks are numbers of ranks.", given, "Pass e.g. --ranks 1,2,4.")
    return numbers
