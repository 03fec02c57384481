"""`jupyter ddl profiles`: lists the places that the site, or the user, named."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "profiles"
HELP = "List the places that the site, or you, named: where ranks can start."
EXAMPLES = (("profiles", "those of the site and yours"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def main(_: argparse.Namespace) -> int:
    """Print them; return the exit status."""
    from jupyter_ddl.commands.profiles import listing

    print(listing())
    return 0
