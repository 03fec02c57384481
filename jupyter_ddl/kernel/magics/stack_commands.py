"""Carries out `%ddl stacks` and `%ddl interrupt`. Runs on: kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable

    from jupyter_ddl.kernel.session import Session


def add_stacks_options(parser: ArgumentParser) -> None:
    """Add the options of `stacks`."""
    parser.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")


def print_stacks(session: Session, ranks: Iterable[int] | None) -> None:
    """Print where the ranks are."""
    print(render_stacks(session.stacks(ranks).values(), session.world_size))


def interrupt(session: Session) -> None:
    """Release the ranks from their runs, also from another notebook's."""
    session.interrupt("%ddl interrupt")
    print(f"{session.name}: interrupted")
