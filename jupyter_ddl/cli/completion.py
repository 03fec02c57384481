"""Answers a shell that completes a line of `jupyter ddl`: subcommands, options, runs and profiles.

A shell asks once its user has `eval "$(register-python-argcomplete jupyter)"` in a start file. Source: argcomplete 3,
"Synopsis"; jupyter_core 5, `_evaluate_argcomplete`, which hands the question on to subcommands.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from jupyter_ddl.commands.parsers import with_subparsers
from jupyter_ddl.errors import DdlError

if TYPE_CHECKING:
    import argparse

# A shell's user looks for a run among the newest.
_RUNS = 50
_OF_RUNS = ("RUN", "RUN|FILE")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print what completes the line, and end this process; do nothing where no shell asks."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    for action in (action for command in with_subparsers(parser) for action in command._actions):
        # Of several values, as a run and its new name, the run is the first.
        first = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
        if first in _OF_RUNS:
            action.completer = _runs  # type: ignore[attr-defined]
        elif "--profile" in action.option_strings:
            action.completer = _profiles  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _runs(**_: object) -> list[str]:
    from jupyter_ddl.runs.store import newest_first

    return [record.run for record in islice(newest_first(), _RUNS)]


def _profiles(**_: object) -> list[str]:
    from jupyter_ddl.launch.profiles.reading import all_profiles

    try:
        return sorted(all_profiles())
    except DdlError:
        # A file that breaks a rule is reported where a command reads it.
        return []
