"""Sends each cell without a magic to the ranks (`%ddl auto on`), but for those that begin with `%%local`.

A cell is changed before IPython reads its magics, as a user would: it gets the line `%%distributed`.

Runs on: kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from jupyter_ddl.kernel.executed_notebook import notebooks_with
from jupyter_ddl.kernel.run_origin import cell_id, executed_code, is_cell
from jupyter_ddl.protocol.notebook_mode import runs_whole

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MAGIC = "%%distributed\n"
_LOCAL = re.compile(r"%%local[^\S\n]*(?:\n|\Z)")
# IPython runs no cell magic without a body, not even for its help.
_ASKS_HELP = re.compile(r"%%distributed[^\n]*\s(?:-h|--help)\s*\Z")
# As labextension/src/model/magic.ts has it: whole_notebook.fixture.json holds both to it.
# A magic, or a command of the shell, at the beginning of a line, or a question at the end of a cell of one line.
_HAS_MAGIC = re.compile(r"^(?:%{1,2}[A-Za-z_]|!)|\A[^\n]*\?\s*\Z", re.MULTILINE)


class WholeNotebook:
    """Changes the cells of one shell.

    Attributes:
        is_on: whether cells without a magic go to the ranks.
        has_side_effects: read by IPython, which then leaves it out where it asks whether a cell is complete.
    """

    # Source: ipython 9.18, IPython/core/inputtransformer2.py, TransformerManager.check_complete
    has_side_effects = True

    def __init__(self, shell: InteractiveShell) -> None:
        self.is_on = False
        self._shell: Any = shell
        self._running = 0
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def __call__(self, lines: list[str]) -> list[str]:
        """Return a cell's lines as they are to run; IPython has removed empty lines above them."""
        code = "".join(lines)
        local = _LOCAL.match(code)
        if local is not None:
            below = code[local.end() :]
            # The lines below keep their numbers in a traceback, where no magic must be the first.
            return (below if below.startswith("%%") else "\n" + below).splitlines(keepends=True)
        if _ASKS_HELP.match(code):
            return [code.rstrip() + "\n", "\n"]
        is_for_ranks = self._running == 0 and is_cell(self._shell) and self.applies_to(code)
        return [_MAGIC, *lines] if is_for_ranks else lines

    def __str__(self) -> str:
        """Return which cells run where, as a sentence."""
        if self.is_on:
            return "Cells without a magic run on the ranks, and those that begin with %%local here."
        return "Cells without a magic run here."

    def applies_to(self, code: str) -> bool:
        """Return whether a cell, with no empty line above it, goes to the ranks though it does not say so."""
        return self.is_on and bool(code.strip()) and _HAS_MAGIC.search(code) is None

    def _begin(self, _: Any) -> None:
        # What runs meanwhile is no cell: `%%capture`, for one, has the shell run code.
        self._running += 1

    def _end(self, _: Any) -> None:
        # The cell that loaded jupyter_ddl had begun before this was here.
        self._running = max(0, self._running - 1)


def installed(shell: InteractiveShell) -> WholeNotebook:
    """Return what changes a shell's cells, put there where it is not there yet."""
    transforms: Any = shell.input_transformer_manager.cleanup_transforms
    found = next((one for one in transforms if isinstance(one, WholeNotebook)), None)
    if found is None:
        found = WholeNotebook(shell)
        # Cell magics are read after all of these.
        transforms.append(found)
    return found


def begin(shell: InteractiveShell) -> None:
    """Change a shell's cells from now on, as the notebook says that it begins, where no page says so to the kernel.

    JupyterLab's panel does, before the first cell; nbconvert and papermill know nothing of it.
    """
    mode = installed(shell)
    # JupyterLab and Notebook 7 name the cell.
    if not is_cell(shell) or cell_id(shell) is not None:
        return
    modes = {runs_whole(notebook.get("metadata")) for notebook in notebooks_with(executed_code(shell))}
    if modes == {True}:
        mode.is_on = True
        print(mode)
    elif len(modes) > 1:
        print(f"{mode} Of the notebooks with this cell that the command line names, only some run on the ranks.")


def goes_to_ranks(cell: str) -> bool:
    """Return whether a cell of this kernel's goes to the ranks though it does not say so."""
    shell = get_ipython()
    return shell is not None and installed(shell).applies_to(cell.lstrip())
