"""`jupyter ddl clusters`: lists the clusters that run, of this user or of a JupyterHub, and ends idle ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import JUPYTERHUB_TOKEN_VARIABLE, JUPYTERHUB_URL_VARIABLE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.oversight.hub_access import HubAccess
    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary, ServerProblem, StopOutcome

NAME = "clusters"
HELP = "List the clusters that run, how long each has been idle, and its last fault; stop idle ones."
EXAMPLES = (
    ("clusters", "yours on this machine"),
    ("clusters --stop-idle 2h", "stop those without a run for two hours, after a question"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
    parser.add_argument(
        "--hub",
        action="store_true",
        help=f"of all users of the JupyterHub at {JUPYTERHUB_URL_VARIABLE}, with the token of an administrator in "
        f"{JUPYTERHUB_TOKEN_VARIABLE}; on a server of it both are known",
    )
    parser.add_argument(
        "--stop-idle", metavar="TIME", help="stop those without a run for so long: 45s, 30m, 2h or 1d; asks first"
    )
    parser.add_argument("--yes", action="store_true", help="stop them without asking")
    parser.add_argument("--json", action="store_true", help="as JSON")


def main(arguments: argparse.Namespace) -> int:
    """List, ask and stop; return 1 where idle ones are left: they are not to be stopped, or could not be."""
    from jupyter_ddl.oversight.stopping import is_idle_for
    from jupyter_ddl.protocol.idle_stop import seconds_of

    idle_s = None if arguments.stop_idle is None else seconds_of(arguments.stop_idle)
    hub = _hub() if arguments.hub else None
    found, problems = _found(hub)
    _show_problems(problems)
    if idle_s is None:
        _show(found, as_json=arguments.json)
        return 0
    idle = [summary for summary in found if is_idle_for(summary, idle_s)]
    if not idle:
        print("{}" if arguments.json else f"No cluster has been idle for {arguments.stop_idle}.")
        return 0
    if not arguments.yes and not _is_wanted(idle, arguments.stop_idle):
        print("None was stopped.", file=sys.stderr)
        return 1
    outcomes = _stopped(hub, idle, idle_s)
    _show_outcomes(idle, outcomes, as_json=arguments.json, is_logged_here=hub is None)
    return 1 if "failed" in outcomes.values() else 0


def _hub() -> HubAccess:
    from jupyter_ddl.oversight.hub_access import HubAccess

    hub = HubAccess.of(os.environ)
    if hub is None:
        raise InvalidInput(
            "--hub takes the address of a JupyterHub.",
            "none",
            f"Set {JUPYTERHUB_URL_VARIABLE} to it, and {JUPYTERHUB_TOKEN_VARIABLE} to the token of an administrator.",
        )
    return hub


def _found(hub: HubAccess | None) -> tuple[list[ClusterSummary], tuple[ServerProblem, ...]]:
    from jupyter_ddl.oversight import clusters
    from jupyter_ddl.oversight.all_servers import hub_overview

    if hub is None:
        return [summary for _, summary in clusters.found()], ()
    overview = asyncio.run(hub_overview(hub))
    return list(overview.clusters), overview.problems


def _stopped(hub: HubAccess | None, idle: Sequence[ClusterSummary], idle_s: float) -> dict[str, StopOutcome]:
    """Stop clusters; return key -> what became of each."""
    from jupyter_ddl.oversight.all_servers import stop_idle_in_hub
    from jupyter_ddl.oversight.clusters import this_user
    from jupyter_ddl.oversight.stopping import stop_idle
    from jupyter_ddl.protocol.cluster_summaries import HubStopRequest, StopRequest

    if hub is not None:
        return asyncio.run(stop_idle_in_hub(hub, HubStopRequest(tuple(one.in_hub for one in idle), idle_s)))
    outcomes = stop_idle(StopRequest(tuple(one.id for one in idle), idle_s), this_user())
    return {one.in_hub.key: outcomes[one.id] for one in idle}


def _is_wanted(idle: Sequence[ClusterSummary], time: str) -> bool:
    from jupyter_ddl.oversight.table import clusters_table, loss_text

    # To standard error: --json has the result alone on standard output.
    print(f"Idle for {time} or longer:\n{clusters_table(idle)}", file=sys.stderr)
    print(f"{loss_text(idle)} One that is used until then is left.", file=sys.stderr)
    if not sys.stdin.isatty():
        print("--yes stops them without asking.", file=sys.stderr)
        return False
    print(f"Stop {'it' if len(idle) == 1 else f'these {len(idle)}'}? [y/N] ", end="", file=sys.stderr, flush=True)
    return input().strip().lower() in ("y", "yes")


def _show(found: Sequence[ClusterSummary], *, as_json: bool) -> None:
    from jupyter_ddl.oversight.table import clusters_table

    print(json.dumps([asdict(summary) for summary in found], indent=1) if as_json else clusters_table(found))


def _show_problems(problems: Sequence[ServerProblem]) -> None:
    from jupyter_ddl.oversight.table import problem_text

    for problem in problems:
        print(problem_text(problem), file=sys.stderr)


def _show_outcomes(
    idle: Sequence[ClusterSummary], outcomes: Mapping[str, StopOutcome], *, as_json: bool, is_logged_here: bool
) -> None:
    from jupyter_ddl.cluster.ending_notes import log_file
    from jupyter_ddl.oversight.table import outcome_text, shown

    if as_json:
        print(json.dumps(dict(outcomes), indent=1))
        return
    for one in idle:
        print(f"{shown(one.name)} of {shown(one.user)}: {outcome_text(outcomes[one.in_hub.key])}")
    if "stopped" in outcomes.values() and is_logged_here:
        print(f"Logged in {log_file()}")
