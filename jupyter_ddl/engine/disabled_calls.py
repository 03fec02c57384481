"""Disables what a cell cannot do on a rank: ask the user for input, and end the rank's process.

Runs on: every rank.
"""

from __future__ import annotations

import builtins
import getpass
import os
from typing import Any, NoReturn

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, instead, patch


def install() -> None:
    """Make `input` an error that says what to do instead."""
    # mpiexec may pass its own stdin on, and a read from a terminal would wait for ever.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # ipykernel would ask the front end that sent the request; a rank's requests come from none.
    for module, name in ((builtins, "input"), (getpass, "getpass")):
        patch(module, name, _refuse_input, Layer.RANK, instead)


def _refuse_input(*_arguments: Any, **_options: Any) -> NoReturn:
    raise InvalidInput(
        "A rank cannot ask for input: it has no terminal.",
        "input()",
        "Set the value in the notebook, and send it with %ddl push.",
    )


def refuse_exit() -> NoReturn:
    """Raise an error that says what to do instead of `exit`.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "A cell must not end its rank.", "exit", "Raise an error to leave the cell; %ddl stop ends the ranks."
    )


def refuse_magics() -> NoReturn:
    """Refuse `%load_ext jupyter_ddl` on a rank: it would change the rank's kernel, and start ranks of its own.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "jupyter_ddl is loaded in the notebook, not on its ranks.",
        "%load_ext jupyter_ddl in a cell on ranks",
        "Write it in a cell without %%distributed.",
    )
