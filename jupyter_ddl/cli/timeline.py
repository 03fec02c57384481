"""`jupyter ddl timeline`: says where the time of a run's steps went, from Horovod's timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.commands import timeline

if TYPE_CHECKING:
    import argparse

NAME = "timeline"
HELP = "Say where the time of training steps went, from Horovod's timeline."
EXAMPLES = (
    ("timeline", "of the newest run that recorded one"),
    ("timeline a3f1 --perfetto all.json", "for ui.perfetto.dev"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    timeline.add_timeline_options(parser)


def main(arguments: argparse.Namespace) -> int:
    """Say it; return the exit status."""
    timeline.show_timeline(arguments)
    return 0
