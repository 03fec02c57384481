"""`jupyter ddl clusters`: lists the clusters that run, and ends idle ones."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary, StopOutcome

NAME = "clusters"
HELP = "List the clusters that run, how long each has been idle, and its last fault; stop idle ones."

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "--stop-idle", metavar="TIME", help="stop those without a run for so long: 45s, 30m, 2h or 1d; asks first"
    )
    parser.add_argument("--yes", action="store_true", help="stop them without asking")
    parser.add_argument("--json", action="store_true", help="as JSON")


def main(arguments: argparse.Namespace) -> int:
    """List, ask and stop; return 1 where idle ones are left, since they are not to be stopped or could not be."""
    from jupyter_ddl.oversight import clusters
    from jupyter_ddl.oversight.stopping import is_idle_for

    idle_s = None if arguments.stop_idle is None else seconds_of(arguments.stop_idle)
    found = [summary for _, summary in clusters.found()]
    if idle_s is None:
        _show(found, as_json=arguments.json)
        return 0
    idle = [summary for summary in found if is_idle_for(summary, idle_s)]
    if not arguments.yes and not (idle and _is_wanted(idle, arguments.stop_idle)):
        print(f"No cluster has been idle for {arguments.stop_idle}." if not idle else "None was stopped.")
        return 1 if idle else 0
    return _stop(idle, idle_s, as_json=arguments.json)


def seconds_of(text: str) -> float:
    """Return a time in seconds.

    Raises:
        InvalidInput: it is none.

    Example:
        >>> seconds_of("30m")
        1800.0
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidInput("A time is a number and one of s, m, h and d.", repr(text[:80]), "Write 45s, 30m, 2h or 1d.")
    return float(match[1]) * _SECONDS[match[2]]


def _show(found: Sequence[ClusterSummary], *, as_json: bool) -> None:
    from jupyter_ddl.oversight.table import clusters_table

    print(json.dumps([asdict(summary) for summary in found], indent=1) if as_json else clusters_table(found))


def _is_wanted(idle: Sequence[ClusterSummary], time: str) -> bool:
    # To standard error: --json has the result alone on standard output.
    print(f"Idle for {time} or longer:", file=sys.stderr)
    from jupyter_ddl.oversight.table import clusters_table

    print(clusters_table(idle), file=sys.stderr)
    print("What their cells defined is lost. One that is used until then is left.", file=sys.stderr)
    if not sys.stdin.isatty():
        print("--yes stops them without asking.", file=sys.stderr)
        return False
    print(f"Stop {'it' if len(idle) == 1 else f'these {len(idle)}'}? [y/N] ", end="", file=sys.stderr, flush=True)
    return input().strip().lower() in ("y", "yes")


def _stop(idle: Sequence[ClusterSummary], idle_s: float, *, as_json: bool) -> int:
    from jupyter_ddl.oversight.clusters import this_user
    from jupyter_ddl.oversight.stopping import log_file, outcome_text, stop_idle
    from jupyter_ddl.protocol.cluster_summaries import StopRequest

    outcomes: dict[str, StopOutcome] = stop_idle(StopRequest(tuple(one.id for one in idle), idle_s), this_user())
    if as_json:
        print(json.dumps(outcomes, indent=1))
    else:
        for one in idle:
            print(f"{one.name}: {outcome_text(outcomes[one.id])}")
        if not idle:
            print("No cluster has been idle for so long.")
        elif "stopped" in outcomes.values():
            print(f"Logged in {log_file()}")
    return 1 if "failed" in outcomes.values() else 0
