"""Carries out `%ddl stacks`, `%ddl profile` and `%ddl interrupt`. Runs on: kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster.rank_profiles import HZ, MOST_HZ, MOST_SECONDS, SECONDS
from jupyter_ddl.kernel.profiling import take_profile
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


def add_profile_options(parser: ArgumentParser) -> None:
    """Add the options of `profile`."""
    parser.add_argument("-r", "--ranks", help="which ranks, e.g. 0,2-3 (default: all)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help=f"for how long (default: {SECONDS:g}; at most {MOST_SECONDS:g})",
    )
    parser.add_argument(
        "--hz", type=float, default=HZ, help=f"samples a second of each rank (default: {HZ:g}; at most {MOST_HZ:g})"
    )


def print_profile(session: Session, ranks: Iterable[int] | None, seconds: float, hz: float) -> None:
    """Print where the ranks' time goes."""
    print(take_profile(session, ranks, seconds, hz).text)


def interrupt(session: Session) -> None:
    """Release the ranks from their runs, also from another notebook's."""
    session.interrupt("%ddl interrupt")
    print(f"{session.name}: interrupted")
