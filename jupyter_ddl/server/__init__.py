"""The hub: what a browser sees of the kernels and the runs of this Jupyter server, and its controls' way to them.

`extension` begins it; `kernels` has the kernels' side, `live` and `browser` the browsers'; `tails` reads on the runs
that somebody watches; `scripts` notices those of `jupyter ddl run`; `runs`, `clusters` and `devices` answer requests.
It keeps no truth of its own: what it tells is in the folders of runs and clusters, and in the kernels, which connect
again after it was restarted.

Runs on: Jupyter server, in its event loop; what reads files runs in threads.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Return what jupyter_server is to load; it looks this name up."""
    from jupyter_ddl.server.extension import HubExtension

    return [{"module": "jupyter_ddl.server", "app": HubExtension}]
