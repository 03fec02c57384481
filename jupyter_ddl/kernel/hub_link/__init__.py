"""Links the kernel to the hub of its Jupyter server: sends its state and runs, and takes controls.

`link` has the socket and its threads, `state` what is sent, `controls` what is done. A cell never waits for any of it;
`%ddl tensorboard` asks by `boards`, and waits.

Runs on: kernel.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from jupyter_ddl.paths import HUB_VARIABLE

# As jupyter_client names the connection files of the kernels that a server starts.
_CONNECTION_FILE = re.compile(r"kernel-(.+)\.json")


def begin(shell: Any) -> None:
    """Connect this kernel to its server's hub, where it has one; a second call does nothing."""
    path, kernel = os.environ.get(HUB_VARIABLE), _kernel_id(shell)
    if path is None or kernel is None:
        return
    from jupyter_ddl.kernel import current
    from jupyter_ddl.kernel.hub_link.controls import Controls
    from jupyter_ddl.kernel.hub_link.link import Link
    from jupyter_ddl.kernel.hub_link.state import State
    from jupyter_ddl.kernel.magics import whole_notebook

    sessions = current.sessions()
    if sessions.hub is not None:
        return
    link = sessions.hub = Link(Path(path), State(kernel, shell, whole_notebook.installed(shell)), Controls())
    sessions.observers.add(link.note)
    link.start()


def _kernel_id(shell: Any) -> str | None:
    """Return Jupyter's id of this kernel; None where it is no kernel, or none that a server started."""
    if getattr(shell, "kernel", None) is None:
        return None
    from ipykernel.kernelapp import IPKernelApp

    if not IPKernelApp.initialized():
        return None
    match = _CONNECTION_FILE.fullmatch(Path(IPKernelApp.instance().connection_file).name)
    return match[1] if match else None
