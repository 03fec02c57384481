"""`jupyter ddl completion SHELL`: prints what has a shell complete `jupyter ddl`, and answers that shell.

The shell's code is argcomplete's. It asks `jupyter`, whose `_evaluate_argcomplete` (jupyter_core 5) hands the question
on to subcommands, and it asks `jupyter-ddl`. Source: argcomplete 3, "Synopsis".
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from jupyter_ddl.commands.parsers import with_subparsers
from jupyter_ddl.errors import DdlError

if TYPE_CHECKING:
    import argparse

NAME = "completion"
HELP = "Print what has bash, zsh or fish complete subcommands, options, files, runs and profiles."
EXAMPLES = (
    ("completion bash", 'print bash\'s code; in ~/.bashrc: eval "$(jupyter ddl completion bash)"'),
    ("completion zsh", 'print zsh\'s code; in ~/.zshrc: eval "$(jupyter ddl completion zsh)"'),
    ("completion fish", "print fish's code; in ~/.config/fish/config.fish: jupyter ddl completion fish | source"),
)
_SHELLS = ("bash", "zsh", "fish")
_COMMANDS = ("jupyter", "jupyter-ddl")
# Of zsh's completion system, which a start file need not have loaded.
_LOADED_IN_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"
# A shell's user looks for a run among the newest.
_RUNS = 50
_OF_RUNS = ("RUN", "RUN|FILE")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's argument.

    Args:
        parser: the subcommand's own.
    """
    parser.add_argument("shell", choices=_SHELLS, help="the shell: bash, zsh or fish")


def main(arguments: argparse.Namespace) -> int:
    """Print the shell's code.

    Args:
        arguments: what `configure`'s parser has read.

    Returns:
        0.
    """
    from argcomplete.shell_integration import shellcode

    code = shellcode(_COMMANDS, shell=arguments.shell)
    if arguments.shell == "zsh":
        # Its first line is `#compdef`: in a file of zsh's `fpath` it must stay the first.
        first, _, others = code.partition("\n")
        code = f"{first}\n{_LOADED_IN_ZSH}\n{others}"
    print(code, end="")
    return 0


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
