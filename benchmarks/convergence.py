"""What the choices of `jupyter_ddl.auto` do to convergence: the experiment of docs/auto-convergence.md.

    python -m benchmarks.convergence [--seeds N] [--to FOLDER]

Trains notebook 01's model on MNIST with SGD on 1, 2 and 4 ranks, with each meaning of the batch size and each scaling
of the learning rate; writes the curves to FOLDER/auto-convergence.json and, for each number of ranks, a plot to
FOLDER/images, for light and for dark pages. `make pictures` draws them again from the curves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import charts
from benchmarks.training_sides import REPOSITORY, on_ranks, our_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "benchmarks.convergence_program"
WORLD_SIZES = (2, 4)
# Name -> arguments of jupyter_ddl.auto.
CHOICES: dict[str, dict[str, str]] = {
    "--batch global": {"batch": "global"},
    "--scale-lr linear (default for SGD)": {"scale_lr": "linear"},
    "--scale-lr sqrt": {"scale_lr": "sqrt"},
    "--scale-lr none": {"scale_lr": "none"},
}
ALONE = "one process"
COLOURS = dict(zip(CHOICES, ("tab:blue", "tab:green", "tab:orange", "tab:red"), strict=True))
QUANTITIES = {"loss": "training loss", "val_accuracy": "test accuracy"}

# Of one training: a quantity's values by epoch.
Curves = dict[str, list[float]]


def measure(seeds: int) -> dict[str, dict[str, list[Curves]]]:
    """Return the curves of each seed, by ranks and choice."""
    found: dict[str, dict[str, list[Curves]]] = {"1": {ALONE: _train(1, None, seeds)}}
    for n in WORLD_SIZES:
        found[str(n)] = {choice: _train(n, arguments, seeds) for choice, arguments in CHOICES.items()}
    return found


def _train(n: int, auto: dict[str, str] | None, seeds: int) -> list[Curves]:
    print(f"  {n} ranks, {auto or 'plain Keras'}", file=sys.stderr, flush=True)
    curves: Any = on_ranks(our_environment(), n, PROGRAM, [json.dumps(auto), str(seeds), "ANSWER"])
    return list(curves)


def draw(found: dict[str, dict[str, list[Curves]]], folder: Path) -> None:
    """Write auto-convergence-N-THEME.png for each number of ranks and each theme.

    Args:
        found: what `measure` returned.
        folder: for the pictures.
    """
    for n in WORLD_SIZES:
        for theme in charts.THEMES:
            with charts.themed(theme) as pyplot:
                figure = plot(pyplot, found, n)
                charts.save(figure, folder / f"auto-convergence-{n}-{theme}.png")
                pyplot.close(figure)


def plot(pyplot: Any, found: dict[str, dict[str, list[Curves]]], n: int) -> Any:
    """Draw both quantities over the epochs, each choice on n ranks beside one process: means, and all seeds faintly.

    Args:
        pyplot: matplotlib's, in a theme.
        found: what `measure` returned.
        n: of WORLD_SIZES.

    Returns:
        matplotlib's figure.
    """
    figure, axes = pyplot.subplots(1, len(QUANTITIES), figsize=(10, 3.8), layout="constrained")
    colours = {ALONE: pyplot.rcParams["text.color"], **COLOURS}
    for axis, (quantity, title) in zip(axes, QUANTITIES.items(), strict=True):
        for choice, curves in {**found["1"], **found[str(n)]}.items():
            seeds = [one[quantity] for one in curves]
            epochs = range(1, len(seeds[0]) + 1)
            # The global batch lies on one process's curve: dashes show both.
            style = (0, (4, 4)) if choice == "--batch global" else "-"
            axis.plot(epochs, means(seeds), color=colours[choice], linestyle=style, label=choice, zorder=3)
            for values in seeds:
                axis.plot(epochs, values, color=colours[choice], linewidth=0.5, alpha=0.3)
        axis.set(xlabel="epoch", title=f"{title}, {n} ranks")
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    axes[1].set_ylim(0.8, 1.0)
    axes[0].legend(fontsize=8)
    return figure


def means(seeds: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean over the seeds, by epoch."""
    return [statistics.mean(values) for values in zip(*seeds, strict=True)]


def table(found: dict[str, dict[str, list[Curves]]]) -> str:
    """Return the means after the first, third and last epoch as a table in Markdown."""
    lines = ["| ranks | choice | loss, epoch 1 | 3 | last | test accuracy, epoch 1 | 3 | last |", "|---" * 8 + "|"]
    for n, choices in found.items():
        for choice, curves in choices.items():
            loss, accuracy = (means([one[quantity] for one in curves]) for quantity in QUANTITIES)
            figures = [f"{loss[i]:.3f}" for i in (0, 2, -1)] + [f"{accuracy[i]:.3f}" for i in (0, 2, -1)]
            lines.append(f"| {n} | {choice} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each choice")
    parser.add_argument(
        "--to", type=Path, default=REPOSITORY / "docs", help="folder for the curves; its folder images gets the plots"
    )
    arguments = parser.parse_args()
    found = measure(arguments.seeds)
    (arguments.to / "auto-convergence.json").write_text(json.dumps(found))
    draw(found, arguments.to / "images")
    print(table(found))


if __name__ == "__main__":
    main()
