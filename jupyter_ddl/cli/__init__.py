"""Runs `jupyter ddl ...`: one module a subcommand.

A subcommand module has `NAME`, `HELP`, `EXAMPLES` (lines without `jupyter ddl`, each with what it does),
`configure(parser)` and `main(arguments) -> int` (the exit status). Its imports stay cheap: what is heavy is imported in
`main`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn, Protocol

from jupyter_ddl import __version__
from jupyter_ddl.cli import (
    bench,
    build_horovod,
    clusters,
    completion,
    ddlrun,
    doctor,
    execute,
    export,
    jobs,
    logs,
    modernise,
    profiles,
    report,
    run,
    runs,
    serve,
    show,
    tensorboard,
    timeline,
    tune,
    workshop,
)
from jupyter_ddl.commands.examples import add_examples
from jupyter_ddl.commands.parsers import StrictParser, with_subparsers
from jupyter_ddl.errors import DdlError, InvalidInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jupyter_ddl.commands.examples import Examples


class Subcommand(Protocol):
    """What a module in this folder offers."""

    NAME: str
    HELP: str

    @property
    def EXAMPLES(self) -> Examples:  # noqa: N802  a constant of the module
        """Lines without `jupyter ddl`, each with what it does."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommand's options."""

    def main(self, arguments: argparse.Namespace) -> int:
        """Run it; return the exit status."""


# As in shells: 128 plus the number of the signal that ended a process.
_SIGNALLED = 128

SUBCOMMANDS: tuple[Subcommand, ...] = (
    *(build_horovod, doctor, run, runs, show, logs, jobs, profiles),
    *(export, execute, serve, modernise, report, tensorboard, clusters, timeline, bench, tune),
    *(ddlrun, workshop, completion),
)


class _Parser(StrictParser):
    """An argument parser with our form of errors."""

    def error(self, message: str) -> NoReturn:
        """End with status 2, as argparse does."""
        remedy = " ".join(self.format_usage().split())
        self.exit(2, f"jupyter ddl: {InvalidInput(f'{self.prog} takes what its usage says.', message, remedy)}\n")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `jupyter ddl` with all of its subcommands."""
    parser = _Parser(prog="jupyter ddl", description="Distributed deep learning from a notebook cell.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.set_defaults(main=lambda _: _print_help(parser))
    subparsers = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND")
    for subcommand in SUBCOMMANDS:
        # argparse fills in `%(prog)s` and the like in what it prints of `help`, but not in a description.
        in_list = subcommand.HELP.replace("%", "%%")
        subparser = subparsers.add_parser(subcommand.NAME, help=in_list, description=subcommand.HELP)
        subcommand.configure(subparser)
        for command in with_subparsers(subparser):
            add_examples(command, ((f"jupyter ddl {line}", meaning) for line, meaning in subcommand.EXAMPLES))
        subparser.set_defaults(main=subcommand.main)
    return parser


def _print_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run `jupyter ddl` with `argv` (default: the process's own) and return its exit status.

    Without a subcommand it prints what there is.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Ranks may print characters that this terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        parser = command_parser()
        completion.complete(parser)
        arguments = parser.parse_args(argv)
        status: int = arguments.main(arguments)
        sys.stdout.flush()
    except DdlError as error:
        print(f"jupyter ddl: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`| head`). Drop what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _SIGNALLED + signal.SIGPIPE
    except KeyboardInterrupt:
        return _SIGNALLED + signal.SIGINT
    return status
