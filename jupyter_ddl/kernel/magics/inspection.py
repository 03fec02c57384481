"""Inspects names in a cell that runs on ranks on rank 0, for JupyterLab's inspector (Ctrl-I) and any tooltip.

Runs on: kernel.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import DdlError
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics.completion import code_of_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell


def install(shell: InteractiveShell) -> None:
    """Have a kernel ask rank 0 about names in cells that run on ranks; once, however often it is called."""
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is not None:
        # IPython has no hook for it.
        patch(kernel, "do_inspect", _inspect, Layer.KERNEL)


async def _inspect(
    stock: Callable[..., Any],
    code: str,
    cursor_pos: int,
    detail_level: int = 0,
    omit_sections: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Answer an inspect_request: as rank 0 below the magic's line, where there are ranks, and as the kernel elsewhere.

    Source: ipykernel 7.4, ipkernel.IPythonKernel.do_inspect
    """
    below = code_of_ranks(code, cursor_pos)
    found = None if below is None else _ask(*below, detail_level)
    if found is not None:
        return {"status": "ok", "found": found["found"], "data": found["data"], "metadata": {}}
    answer = stock(code, cursor_pos, detail_level, omit_sections)
    own: dict[str, Any] = await answer if inspect.isawaitable(answer) else answer
    return own


def _ask(code: str, cursor: int, detail: int) -> dict[str, Any] | None:
    try:
        return current.current().look_up("inspect", code, cursor, detail)
    except DdlError:
        # No ranks, or none that live: what the kernel knows is better than nothing.
        return None
