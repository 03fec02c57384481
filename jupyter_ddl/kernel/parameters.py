"""Adds parameters to the last run of this kernel, when its user logs them in a cell of the kernel's own.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.protocol.parameters import checked
from jupyter_ddl.runs.labels import add_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping


def log(given: Mapping[str, Any]) -> None:
    """Add parameters to the run that began last; nothing in plain Python, which has no runs.

    Raises:
        InvalidInput: one of them is no parameter, there are too many, or this kernel has run nothing on ranks.
    """
    parameters = checked(given)
    last = current.sessions().last_run
    if last is not None:
        add_parameters(last.folder.path, parameters)
    elif get_ipython() is not None:
        raise InvalidInput(
            "Parameters belong to a run on the ranks.",
            "none yet in this kernel",
            "Run a cell with %%distributed first, or log them in it.",
        )
