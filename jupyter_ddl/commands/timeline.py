"""Shares between `%ddl timeline` and `jupyter ddl timeline`: the options, and what is printed or written.

Runs on: kernel, or the terminal's process.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.runs.log_times import clocks_ahead_us
from jupyter_ddl.runs.store import resolve

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

# The collectives of a step are kept in memory.
_MOST_STEPS = 1_000


def add_timeline_options(parser: ArgumentParser) -> None:
    """Add the options of `timeline`."""
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN|FILE",
        help="a run that was recorded with --timeline (default: the newest run), or a file that Horovod wrote",
    )
    parser.add_argument("--steps", metavar="A-B", help="each of these steps too, counted from 1: 100-130, or 5")
    parser.add_argument("--json", action="store_true", help="as JSON, in microseconds and bytes")
    parser.add_argument("--perfetto", metavar="FILE", help="write all ranks into one file for ui.perfetto.dev")


def show_timeline(arguments: Namespace) -> None:
    """Print where the steps' time went, or write the file for Perfetto.

    Raises:
        InvalidInput: there is no such run or file, it has no timeline, or an option's value breaks its rule.
    """
    # Here: every command of the terminal imports this module.
    from jupyter_ddl.timeline.analysis import analyse
    from jupyter_ddl.timeline.record import analysis_record
    from jupyter_ddl.timeline.run_files import analyse_run
    from jupyter_ddl.timeline.text import analysis_text

    kept = steps_in(arguments.steps)
    given = Path(arguments.run or "")
    folder = None if given.is_file() else resolve(arguments.run).path
    if arguments.perfetto is not None:
        _write_perfetto(Path(arguments.perfetto), given, folder)
        return
    found = analyse(given.resolve(), kept) if folder is None else analyse_run(folder, clocks_ahead_us(folder), kept)
    name = str(given) if folder is None else folder.name
    print(json.dumps(analysis_record(found), indent=1) if arguments.json else analysis_text(found, name))


def steps_in(text: str | None) -> range:
    """Return the steps that a text means, from 0; none for None.

    Raises:
        InvalidInput: it means none, or too many.

    Example:
        >>> steps_in("5-7")
        range(4, 7)
    """
    if text is None:
        return range(0)
    numbers = re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", text.strip(), re.ASCII)
    if numbers is not None:
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if 1 <= first <= last < first + _MOST_STEPS:
            return range(first - 1, last)
    raise InvalidInput(
        f"--steps takes a step, or the first and the last of at most {_MOST_STEPS:,}, counted from 1.",
        f"--steps {text}",
        "Write, for example, --steps 100-130.",
    )


def _write_perfetto(target: Path, horovod: Path, folder: Path | None) -> None:
    from jupyter_ddl.timeline import perfetto
    from jupyter_ddl.timeline.run_files import perfetto_pieces

    ahead_us = {} if folder is None else clocks_ahead_us(folder)
    pieces = perfetto.pieces(horovod.resolve()) if folder is None else perfetto_pieces(folder, ahead_us)
    try:
        with target.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise InvalidInput(
            "The file for Perfetto is a path that can be written.", f"{target}: {error.strerror}", "Pass another path."
        ) from error
    print(f"{target}: open it at ui.perfetto.dev")
    if ahead_us:
        most_us = max(map(abs, ahead_us.values()))
        print(f"Clocks of other hosts were up to {most_us / 1000:.3g} ms ahead or behind; their times are corrected.")
