"""Names, annotates and tags runs, and chooses runs by what they have: the options of `runs`.

Runs on: kernel, or the terminal's process.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs import labels
from jupyter_ddl.runs.choice import Choice
from jupyter_ddl.runs.store import resolve
from jupyter_ddl.views.runs_table import run_line

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from jupyter_ddl.runs.store import RunRecord

_CHANGES = ("rename", "note", "add_tag", "remove_tag")
_FILTERS = ("tag", "notebook", "state")


def add_label_options(parser: ArgumentParser) -> None:
    """Add the options that choose runs, and those that label one."""
    parser.add_argument("--tag", action="append", metavar="TAG", help="only runs with this tag; may be repeated")
    parser.add_argument(
        "--notebook", metavar="TEXT", help="only runs of a notebook (or script) whose path contains this"
    )
    parser.add_argument("--state", metavar="STATE", help="only runs of this outcome, e.g. finished or 'timed out'")
    parser.add_argument("--rename", nargs=2, metavar=("RUN", "NAME"), help="name a run; '' removes the name")
    parser.add_argument("--note", nargs=2, metavar=("RUN", "TEXT"), help="write a note on a run; '' removes it")
    parser.add_argument("--add-tag", nargs=2, metavar=("RUN", "TAG"), help="tag a run; commas part several tags")
    parser.add_argument("--remove-tag", nargs=2, metavar=("RUN", "TAG"), help="take a tag, or several, off a run")


def change_labels(arguments: Namespace) -> bool:
    """Label the run that the options name, and print it; return False where they name none.

    Raises:
        InvalidInput: there is no such run, it cannot be labelled so, or a list of runs was asked for as well.
    """
    changes = [option for option in _CHANGES if getattr(arguments, option) is not None]
    if not changes:
        return False
    others = [option for option in (*_FILTERS, "prune") if getattr(arguments, option)]
    if len(changes) > 1 or others:
        given = " ".join(_option(option) for option in (*changes, *others))
        raise InvalidInput("One label is changed at a time.", given, "Use one option a command.")
    text, value = getattr(arguments, changes[0])
    folder = resolve(text).path
    if changes[0] == "rename":
        labels.rename(folder, value)
    elif changes[0] == "note":
        labels.annotate(folder, value)
    else:
        tags = [tag.strip() for tag in value.split(",")]
        (labels.tag if changes[0] == "add_tag" else labels.untag)(folder, tags)
    print(run_line(resolve(folder.name)))
    return True


def chosen(runs: Iterator[RunRecord], arguments: Namespace) -> Iterator[RunRecord]:
    """Return those of the runs that the options choose; all where none does."""
    choice = Choice(
        state=(arguments.state,) if arguments.state else (),
        notebook=(arguments.notebook,) if arguments.notebook else (),
        tag=tuple(arguments.tag or ()),
    )
    return filter(choice.has, runs)


def is_choosing(arguments: Namespace) -> bool:
    """Return whether the options choose some of the runs."""
    return any(getattr(arguments, option) for option in _FILTERS)


def details(run: RunRecord) -> Iterator[str]:
    """Yield the lines that tell a run from others, under the one that describes it."""
    if run.notebook is not None:
        number = "" if run.cell_number is None else f" [{run.cell_number}]"
        yield f"notebook: {PurePath(run.notebook).name}{number}"
    if run.git_commit is not None:
        yield f"commit: {run.git_commit[:12]}"
    if run.parameters:
        yield "parameters: " + ", ".join(f"{name}={_value(value)}" for name, value in run.parameters.items())
    if run.note is not None:
        yield f"note: {run.note}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
