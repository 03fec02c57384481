"""`jupyter ddl ...`: one module a subcommand.

A subcommand module has `NAME`, `HELP`, `configure(parser)` and `main(arguments) -> int` (the exit status). Its
imports stay cheap: what is heavy is imported in `main`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Protocol

from jupyter_ddl import __version__
from jupyter_ddl.cli import build_horovod, doctor
from jupyter_ddl.errors import DdlError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Subcommand(Protocol):
    """What a module in this folder offers."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommand's options."""

    def main(self, arguments: argparse.Namespace) -> int:
        """Run it; return the exit status."""


SUBCOMMANDS: tuple[Subcommand, ...] = (build_horovod, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `jupyter ddl` with `argv` (default: the process's own) and return its exit status."""
    parser = argparse.ArgumentParser(prog="jupyter ddl", description="Distributed deep learning from a notebook cell.")
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(title="subcommands", required=True, metavar="SUBCOMMAND")
    for subcommand in SUBCOMMANDS:
        subparser = subparsers.add_parser(subcommand.NAME, help=subcommand.HELP, description=subcommand.HELP)
        subcommand.configure(subparser)
        subparser.set_defaults(main=subcommand.main)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.main(arguments)
    except DdlError as error:
        print(f"jupyter ddl: {error}", file=sys.stderr)
        return 1
    return status
