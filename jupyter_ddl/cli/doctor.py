"""`jupyter ddl doctor`: checks what a training cell needs, and reports how to fix problems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

NAME = "doctor"
HELP = "Check everything that a training cell needs, and say how to fix what is wrong."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--patches", action="store_true", help="print which methods of its libraries a rank replaces, and why"
    )


def main(arguments: argparse.Namespace) -> int:
    """Check; return 1 where there is a problem. With --patches print the patches, and check nothing."""
    if arguments.patches:
        from jupyter_ddl.doctor.patches import patches_json, patches_text

        print(json.dumps(patches_json(), indent=2) if arguments.json else patches_text())
        return 0
    from jupyter_ddl.doctor import as_json, examine, is_well, print_report

    if arguments.json:
        checks = list(examine())
        print(json.dumps(as_json(checks), indent=2))
    else:
        checks = print_report()
    return 0 if is_well(checks) else 1
