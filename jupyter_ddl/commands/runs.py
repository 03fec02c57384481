"""Shares between `%ddl runs|show` and `jupyter ddl runs|show`: the options, and what is printed.

Runs on: kernel, or the terminal's process.
"""

from __future__ import annotations

import re
import sys
from itertools import chain, islice
from typing import TYPE_CHECKING

from jupyter_ddl.commands.run_labels import add_label_options, change_labels, chosen, details, is_choosing
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.number_texts import counted, size
from jupyter_ddl.runs.ending import Ending
from jupyter_ddl.runs.logs import log_files
from jupyter_ddl.runs.prune import delete, plan_pruning
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import foreign, newest_first, resolve, single_rank_samples_per_s
from jupyter_ddl.views.fault import ERRORS, render_fault
from jupyter_ddl.views.line import plain_lines
from jupyter_ddl.views.runs_table import run_line, runs_table

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.runs.prune import Pruning
    from jupyter_ddl.runs.store import RunRecord

LISTED = 20
_DOOMED_LISTED = 100
# Every control character that is neither white space nor the beginning of a colour.
_NOT_COLOUR = re.compile(r"\x1b(?!\[[0-9;:]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def add_run(parser: ArgumentParser) -> None:
    """Add the argument that names a run."""
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="its id, or a beginning or end of it (default: the newest)"
    )


def add_runs_options(parser: ArgumentParser) -> None:
    """Add the options of `runs`."""
    parser.add_argument("-n", type=int, default=LISTED, metavar="N", help=f"how many to list (default: {LISTED})")
    parser.add_argument(
        "--prune", action="store_true", help="say which runs would be deleted; needs --keep or --keep-days"
    )
    parser.add_argument("--keep", type=int, metavar="N", help="with --prune: the newest N stay")
    parser.add_argument("--keep-days", type=float, metavar="D", help="with --prune: those of the last D days stay")
    parser.add_argument("--yes", action="store_true", help="with --prune: delete them")
    add_label_options(parser)


def list_runs(arguments: Namespace) -> None:
    """Print the newest runs, label one, or delete old ones."""
    if change_labels(arguments):
        return
    pruning = {
        "--keep": arguments.keep is not None,
        "--keep-days": arguments.keep_days is not None,
        "--yes": arguments.yes,
    }
    if arguments.prune:
        if is_choosing(arguments):
            rule = "Runs are pruned by their age and number, not by what they have."
            raise InvalidInput(rule, "--prune with --tag, --notebook or --state", "Leave one out.")
        _prune(arguments)
        return
    if given := [option for option, is_given in pruning.items() if is_given]:
        raise InvalidInput(f"{given[0]} says how to prune.", f"{given[0]} without --prune", "Add --prune.")
    if arguments.n < 1:
        raise InvalidInput("-n takes a number of at least 1.", f"-n {arguments.n}", "Pass how many runs to list.")
    runs = chosen(newest_first(), arguments)
    shown = list(islice(runs, min(arguments.n, sys.maxsize)))
    print(runs_table(shown) if shown else "No such runs." if is_choosing(arguments) else "No runs yet.")
    if next(runs, None) is not None:
        print(f"… and older ones: -n {10 * arguments.n} lists more")
    if others := foreign():
        print(f"… and {others:,} of other users, which are not listed")


def show_run(arguments: Namespace, *, in_notebook: bool) -> None:
    """Show a run's output as it was while it ran, under a line that describes it.

    Args:
        arguments: with `run`.
        in_notebook: a traceback's colours can be shown.
    """
    from jupyter_ddl.views.replay import replay

    record = resolve(arguments.run)
    print("\n".join([run_line(record), *plain_lines("\n".join(details(record)))]), flush=True)
    ending = Ending()
    logs = f"{'%ddl' if in_notebook else 'jupyter ddl'} logs {record.run}"
    replay(
        ending.noted(run_events(record.path)),
        record.ranks,
        logs,
        only_first_rank=bool(record.options.get("auto")),
    )
    if not ending.has_events and log_files(record.path):
        print(f"Only the logs of its output exist: {logs}")
    fault = ending.fault(record)
    if fault is not None:
        told = fault_text(fault, ending, record)
        print(_NOT_COLOUR.sub("", told) if in_notebook else "\n".join(plain_lines(told)), flush=True)


def show_dashboard(arguments: Namespace) -> None:
    """Show how a run trained, or has trained so far: in the notebook as a dashboard, in a terminal as a table.

    Raises:
        DashboardMissing: the browser's part was not built.
    """
    from jupyter_ddl.views.selection import current_publisher

    record = resolve(arguments.run)

    def single_rank(model: str) -> float | None:
        return single_rank_samples_per_s(model, record.computes_on) if record.computes_on else None

    print(run_line(record), flush=True)
    events = run_events(record.path)
    first = next(events, None)
    if first is None:
        print("Nothing of it was recorded.")
        return
    publisher = current_publisher()
    if publisher is None:
        from jupyter_ddl.views.figures import Figures
        from jupyter_ddl.views.metrics_table import metrics_table

        figures = Figures(single_rank)
        for event in chain([first], events):
            figures.handle(event)
        print(metrics_table(figures))
        return
    from jupyter_ddl.views.dashboard import show_finished

    show_finished(chain([first], events), publisher, single_rank)


def fault_text(fault: Fault, ending: Ending, record: RunRecord) -> str:
    """Return a fault as the cell showed it: under the name of its error."""
    error = ERRORS.get(fault.kind)
    program = "cell" if record.script is None else "script"
    text = render_fault(fault, ending.causes(), logs=record.path, program=program)
    return text if error is None else f"{error.__name__}: {text}"


def _prune(arguments: Namespace) -> None:
    pruning = plan_pruning(keep=arguments.keep, keep_days=arguments.keep_days)
    print(_pruning_text(pruning, is_sure=arguments.yes), flush=True)
    if arguments.yes:
        delete(pruning.doomed)


def _pruning_text(pruning: Pruning, *, is_sure: bool) -> str:
    lines = [f"{run} stays: {reason}" for run, reason in pruning.spared.items()]
    count = len(pruning.doomed)
    if not count:
        stay = "1 run stays" if pruning.kept == 1 else f"{pruning.kept:,} runs stay"
        return "\n".join([*lines, f"Nothing to delete: {stay}."])
    what = f"{counted(count, 'run')} ({size(pruning.size_bytes)})"
    lines.append(f"{'Deleting' if is_sure else 'Would delete'} {what}, and keep {pruning.kept:,}:")
    lines.append(runs_table(pruning.doomed[:_DOOMED_LISTED]))
    if count > _DOOMED_LISTED:
        lines.append(f"… and {count - _DOOMED_LISTED:,} older ones")
    if not is_sure:
        lines.append("Nothing is deleted yet: add --yes.")
    return "\n".join(lines)
