"""Shares between `%ddl timeline` and `jupyter ddl timeline`: the options, and what is printed or written.

Runs on: kernel, or the terminal's process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.rank_files import STEPS, TIMELINE, rank_file, rank_file_pattern
from jupyter_ddl.runs.log_times import clocks_ahead_us
from jupyter_ddl.runs.store import resolve
from jupyter_ddl.timeline import perfetto
from jupyter_ddl.timeline.analysis import analyse
from jupyter_ddl.timeline.record import analysis_record
from jupyter_ddl.timeline.text import analysis_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_STEPS = rank_file_pattern(STEPS)


def add_timeline_options(parser: ArgumentParser) -> None:
    """Add the options of `timeline`."""
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN|FILE",
        help="a run that was recorded with --timeline (default: the newest run), or a file that Horovod wrote",
    )
    parser.add_argument("--json", action="store_true", help="as JSON, in microseconds and bytes")
    parser.add_argument("--perfetto", metavar="FILE", help="write all ranks into one file for ui.perfetto.dev")


def show_timeline(arguments: Namespace) -> None:
    """Print where the steps' time went, or write the file for Perfetto.

    Raises:
        InvalidInput: there is no such run or file, or it has no timeline.
    """
    given = arguments.run
    file = Path(given) if given is not None and Path(given).is_file() else None
    folder = resolve(given).path if file is None else None
    path = file or timeline_of(folder)
    if arguments.perfetto is not None:
        _write_perfetto(Path(arguments.perfetto), path, folder)
        return
    found = analyse(path)
    name = folder.name if folder is not None else str(path)
    print(json.dumps(analysis_record(found), indent=1) if arguments.json else analysis_text(found, name))


def timeline_of(folder: Path | None) -> Path:
    """Return the file of a run's timeline.

    Raises:
        InvalidInput: it has none.
    """
    assert folder is not None
    path = folder / rank_file(0, TIMELINE)
    if not path.is_file():
        raise InvalidInput(
            "A run has a timeline where it was recorded.",
            f"{folder.name}, which has none",
            "Run the cell again with %%distributed --timeline, the script with jupyter ddl run --timeline.",
        )
    return path


def _write_perfetto(target: Path, horovod: Path, folder: Path | None) -> None:
    found = [] if folder is None else [(_STEPS.fullmatch(one.name), one) for one in sorted(folder.iterdir())]
    steps = {int(match[1]): path for match, path in found if match is not None}
    ahead_us = {} if folder is None else clocks_ahead_us(folder)
    try:
        with target.open("w", encoding="utf-8") as file:
            perfetto.write(file, horovod, steps, ahead_us)
    except OSError as error:
        raise InvalidInput(
            "The file for Perfetto is a path that can be written.", f"{target}: {error.strerror}", "Pass another path."
        ) from error
    print(f"{target}: open it at ui.perfetto.dev")
    if ahead_us:
        most_us = max(map(abs, ahead_us.values()))
        print(f"Clocks of other hosts were up to {most_us / 1000:.3g} ms ahead or behind; their times are corrected.")
