"""Defines the arguments of `%%distributed` and `jupyter ddl run`, each once, and makes `CellOptions` of them.

An argument whose `dest` is a field of `CellOptions` becomes that field; no other code reads it.

Runs on: kernel and terminal.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import (
    BATCHES,
    ON_DRIFT,
    SCALINGS,
    STALL_AFTER_S,
    STOP,
    AutoOptions,
    CellOptions,
    StallOptions,
)
from jupyter_ddl.protocol.memory_options import USAGE, parsed

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# Argparse would not bracket the options that belong to --auto.
SCRIPT_USAGE = (
    "[--independent] [--no-legacy] [--sample-every S] [--checkpoint DIR] [--on-drift stop|warn] "
    "[--memory WORDS] [--stall-after S] [--on-stall report|abort] [--timeline] "
    "[--auto [--batch WHOSE] [--scale-lr HOW] [--warmup-epochs E] [--explain]]"
)
_OF_AUTO = ("batch", "scale_lr", "warmup_epochs")


def add_cell_arguments(parser: ArgumentParser) -> None:
    """Add the options of a cell, without its ranks."""
    parser.add_argument(
        "--timeout", dest="timeout_s", type=float, metavar="S", help="release the ranks after S seconds"
    )
    _add_independent(parser)
    _add_sampling(parser)
    parser.add_argument("--setup", action="store_true", help="ranks that replace lost ones run the cell again")
    _add_stalls(parser)
    _add_fit(parser)
    _add_auto(parser)


def add_script_arguments(parser: ArgumentParser) -> None:
    """Add the options of a script, without its ranks."""
    _add_independent(parser)
    parser.add_argument(
        "--no-legacy",
        dest="legacy",
        action="store_false",
        help="let spellings of older Keras and TensorFlow be errors, as they are in plain Python",
    )
    _add_sampling(parser)
    _add_stalls(parser)
    _add_fit(parser)
    _add_auto(parser)


def cell_options(arguments: Namespace) -> CellOptions:
    """Return the options of a cell or a script.

    Raises:
        InvalidInput: a value is wrong, or two exclude each other.
    """
    stalls = StallOptions(arguments.stall_after or None, arguments.on_stall)
    return CellOptions(**_values(arguments), stalls=stalls)


def _add_independent(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--independent", action="store_true", help="each rank trains its own model on purpose: do not warn"
    )


def _add_sampling(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sample-every",
        dest="sample_every_s",
        type=float,
        default=1.0,
        metavar="S",
        help="how often ranks send a sample, in seconds; 0 for never",
    )
    parser.add_argument(
        "--timeline", action="store_true", help="record Horovod's timeline into the run's folder: see `timeline`"
    )


def _add_stalls(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--stall-after",
        type=float,
        default=STALL_AFTER_S,
        metavar="S",
        help=f"report ranks that wait for others after S seconds (default: {STALL_AFTER_S:g}); 0 for never",
    )
    parser.add_argument(
        "--on-stall", choices=("report", "abort"), default="report", help="abort: also release the ranks"
    )


def _add_fit(parser: ArgumentParser) -> None:
    """Add the options of every `fit`."""
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="fit saves to DIR after each epoch, and resumes from what is there"
    )
    parser.add_argument(
        "--on-drift",
        default=STOP,
        metavar="|".join(ON_DRIFT),
        help="what fit does where the ranks' weights differ (stop)",
    )
    parser.add_argument("--memory", metavar="WORDS", help=f"train models in less memory: {USAGE}, or some of these")


def _add_auto(parser: ArgumentParser) -> None:
    """Add `--auto` and what belongs to it."""
    parser.add_argument("--auto", action="store_true", help="distribute a Keras program that was written for one GPU")
    parser.add_argument(
        "--batch", metavar="|".join(BATCHES), help="with --auto: what the code's batch size counts (per-rank)"
    )
    parser.add_argument(
        "--scale-lr", metavar="|".join(SCALINGS), help="with --auto: how the learning rate grows with the batch"
    )
    parser.add_argument("--warmup-epochs", type=float, metavar="E", help="with --auto: over how many epochs it grows")
    parser.add_argument(
        "--explain", action="store_true", help="with --auto: run nothing; show the plan, and the program it stands for"
    )


def _values(arguments: Namespace) -> dict[str, Any]:
    """Return the fields that the arguments set; a script has fewer of them."""
    named = {field.name for field in fields(CellOptions)} & vars(arguments).keys()
    values = {name: getattr(arguments, name) for name in named}
    if arguments.memory is not None and getattr(arguments, "explain", False):
        raise InvalidInput(
            "--explain writes out what --auto does, and --memory has no code of its own.",
            f"--explain --memory {arguments.memory}",
            "Drop one of the two.",
        )
    memory = None if arguments.memory is None else parsed(arguments.memory)
    return {
        **values,
        "memory": memory,
        "auto": _auto_options(arguments),
        "sample_every_s": arguments.sample_every_s or None,
    }


def _auto_options(arguments: Namespace) -> AutoOptions | None:
    """Return the options of `--auto`; None where it is not given.

    Raises:
        InvalidInput: a value is wrong, or given without --auto.
    """
    values = {name: value for name in _OF_AUTO if (value := getattr(arguments, name)) is not None}
    if arguments.auto:
        return AutoOptions(**values)
    given = [f"--{name.replace('_', '-')}" for name in values] + ["--explain"] * arguments.explain
    if given:
        raise InvalidInput(f"{given[0]} belongs to --auto.", " ".join(given), "Add --auto, or drop it.")
    return None
