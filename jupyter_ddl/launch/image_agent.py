"""Starts MPI's daemon on another host in the image that mpiexec is in: stands in the remote shell's place.

    run_module.py jupyter_ddl.launch.image_agent HOST WORD...

So the daemon is the image's, its host needs no MPI, and the ranks that it starts are in the image. Open MPI splits its
remote shell at spaces, so that the image and the real remote shell come by a variable.

Runs on: mpiexec's host.
"""

from __future__ import annotations

import json
import os
import shlex
import sys

from jupyter_ddl.launch.container import script_in_image
from jupyter_ddl.paths import AGENT_VARIABLE


def command(settings: str, host: str, *words: str) -> list[str]:
    """Return the remote shell's command that starts something in the image on a host.

    Args:
        settings: the image and the remote shell, as JSON.
        host: its name.
        words: of a line for a shell there, which ssh joins by spaces.
    """
    agent = json.loads(settings)
    return [*agent["ssh"], host, f"exec /bin/sh -c {shlex.quote(script_in_image(agent['image'], ' '.join(words)))}"]


if __name__ == "__main__":
    argv = command(os.environ[AGENT_VARIABLE], *sys.argv[1:])
    os.execvp(argv[0], argv)  # noqa: S606  our own command, as a list
