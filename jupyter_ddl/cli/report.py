"""`jupyter ddl report`: writes a file for support, and shows first what is in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.commands.runs import add_run

if TYPE_CHECKING:
    import argparse

NAME = "report"
HELP = "Write a zip file for support: the machine, a run, why it failed. Shows what is in it, and asks."
EXAMPLES = (
    ("report", "of the newest run, to send to support"),
    ("report a3f1 -o hang.zip --yes", "of a run, without a question"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where it is written (default: ddl-report-RUN.zip here)")
    parser.add_argument("--with-code", action="store_true", help="the cell, or the script's command, is in it too")
    parser.add_argument("--yes", action="store_true", help="write it without asking")


def main(arguments: argparse.Namespace) -> int:
    """Show, ask and write; return 1 where it is not to be written."""
    from jupyter_ddl.doctor import as_json, as_line, examine
    from jupyter_ddl.runs.store import resolve
    from jupyter_ddl.support import contents, zip_file

    record = resolve(arguments.run)
    path = Path(arguments.output or f"ddl-report-{record.run}.zip")
    zip_file.check(path)
    print("Checking this machine, which takes some seconds ...", flush=True)
    checks = list(examine())
    parts = [
        *contents.parts_of_run(record, with_code=arguments.with_code),
        *contents.parts_of_cluster(record),
        *contents.parts_of_machine(os.environ, map(as_line, checks), as_json(checks)),
    ]
    print(f"{path} would hold:\n{zip_file.listing(parts)}")
    print("What programs printed is in it as it is. Names of hosts and users are not left out.")
    if not arguments.yes and not _is_wanted():
        print("Nothing was written. --yes writes it without asking.")
        return 1
    zip_file.write(path, parts)
    print(f"Written: {path}")
    return 0


def _is_wanted() -> bool:
    return sys.stdin.isatty() and input("Write it? [y/N] ").strip().lower() in ("y", "yes")
