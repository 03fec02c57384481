"""Says whether TensorBoard is installed. It is no dependency: it is used where it is found.

Runs on: Jupyter server, terminal.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from jupyter_ddl.errors import InvalidInput


def check_installed() -> None:
    """Check that this interpreter has TensorBoard.

    Raises:
        InvalidInput: it has not.
    """
    if find_spec("tensorboard") is None:
        raise InvalidInput(
            "TensorBoard must be installed where it is to run.",
            f"none in {sys.prefix}",
            f"Run: {sys.executable} -m pip install tensorboard",
        )
