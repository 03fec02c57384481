"""Runs the hub: it shows this Jupyter server's kernels and runs to browsers, and passes their controls on.

`extension` starts it; `kernels` has the kernels' side, `live` and `browser` the browsers'; `tails` follows the runs
that are watched; `scripts` notices those of `jupyter ddl run`; `run_lists`, `runs`, `log_lines`, `timelines`,
`reports`, `clusters`, `oversight`, `jobs`, `devices`, `places`, `exports` and `example` answer requests; `examination`
keeps what the doctor found; `settings_translation` has JupyterLab translate the settings' names. It holds no other
state: all of it is in the folders of runs and clusters, and in the kernels, which reconnect after it was restarted.

Runs on: Jupyter server, in its event loop; what reads files runs in threads.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Return what jupyter_server loads; it looks this name up."""
    from jupyter_ddl.server.extension import HubExtension

    return [{"module": "jupyter_ddl.server", "app": HubExtension}]
