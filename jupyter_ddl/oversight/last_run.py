"""Prints what the newest runs say of one world of ranks: `python -m jupyter_ddl.oversight.last_run WORLD`.

A lease asks it before it ends idle ranks, in a process of its own: a lease knows no runs.

Runs on: the lease's host.
"""

from __future__ import annotations

import json
import sys

from jupyter_ddl.oversight.clusters import activity


def main() -> None:
    """Print, as a line of JSON, whether a run is active, and when the last ended."""
    world_id = sys.argv[1]
    known = activity({world_id}, 0.0)[world_id]
    print(json.dumps({"is_running": known.is_running, "last_s": known.last_s}))


if __name__ == "__main__":
    main()
