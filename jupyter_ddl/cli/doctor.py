"""`jupyter ddl doctor`: reports what a training cell takes, and how to mend what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "doctor"
HELP = "Check everything that a training cell takes, and say how to mend what is wrong."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Check; return 1 where there is a problem."""
    from jupyter_ddl.doctor import Check, as_json, as_line, examine, is_well, summary

    checks: list[Check] = []
    for check in examine():
        checks.append(check)
        if not arguments.json:
            print(as_line(check), flush=True)  # the checks take 10 s together
    print(json.dumps(as_json(checks), indent=2) if arguments.json else summary(checks))
    return 0 if is_well(checks) else 1
