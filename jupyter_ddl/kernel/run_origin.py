"""Finds where a run comes from: the notebook and its cell, as far as the front end says it, and the folder's commit.

Runs on: kernel.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from jupyter_ddl.host.git_commit import commit_of
from jupyter_ddl.runs.origin import first_line

# How Jupyter Server names a kernel's notebook, since version 2.0: its whole path at the time of the kernel's start.
# Source: jupyter_server 2.21, services/sessions/sessionmanager.py, get_kernel_env
_SESSION_VARIABLE = "JPY_SESSION_NAME"
# How VS Code does, in the notebook's namespace.
# Source: vscode-jupyter, src/kernels/execution/helpers.ts
_VS_CODE_NAME = "__vsc_ipynb_file__"
_SUFFIX = ".ipynb"


class Origins:
    """Makes the records of where the runs of one kernel come from.

    Git is asked once a run, in a thread that no cell waits for; and never again in a folder where it has not answered.
    """

    def __init__(self) -> None:
        self._silent: set[Path] = set()
        self._git = ThreadPoolExecutor(1, "jupyter_ddl git")

    def of(self, code: str, shell: Any = None) -> dict[str, Any]:
        """Return the fields of run.json that are known at once; call it in the thread that runs the cell.

        Args:
            code: the cell, without its magic.
            shell: the kernel's IPython; by default this process's, where it has one.
        """
        shell = get_ipython() if shell is None else shell
        notebook = notebook_of(shell)
        return {
            "notebook": notebook,
            "cell_id": cell_id(shell),
            "cell_number": cell_number(shell) if is_cell(shell) else None,
            "first_line": first_line(code),
        }

    def ask_commit(self, notebook: str | None) -> Future[str | None]:
        """Return what will have the commit that is checked out in a notebook's folder, or None."""
        if notebook is not None:
            # Where no more threads can be started, there is none.
            with suppress(RuntimeError):
                return self._git.submit(self._commit, Path(notebook).parent)
        none: Future[str | None] = Future()
        none.set_result(None)
        return none

    def _commit(self, folder: Path) -> str | None:
        if folder in self._silent:
            return None
        commit = commit_of(folder)
        if commit is None:
            self._silent.add(folder)
        return commit


def notebook_of(shell: Any) -> str | None:
    """Return the path of the kernel's notebook; None where no front end says it."""
    names = getattr(shell, "user_ns", {})
    found = names.get(_VS_CODE_NAME) or os.environ.get(_SESSION_VARIABLE)
    return found if isinstance(found, str) and found.endswith(_SUFFIX) else None


def cell_number(shell: Any) -> int | None:
    """Return the number in the brackets of the cell that is being executed; None where there is no history.

    Not the shell's `execution_count`, which some versions of IPython count up before the cell runs, and some after.
    Source: IPython 9.18, core/interactiveshell.py, run_cell_async
    """
    inputs = getattr(getattr(shell, "history_manager", None), "input_hist_parsed", None)
    # Its first element stands for no cell.
    return len(inputs) - 1 if isinstance(inputs, list) and len(inputs) > 1 else None


def cell_id(shell: Any) -> str | None:
    """Return JupyterLab's id of the cell that is being executed; None where another front end gives none."""
    cell = _of_parent(shell, "metadata").get("cellId")
    return cell if isinstance(cell, str) and is_cell(shell) else None


def executed_code(shell: Any) -> str:
    """Return the code that is being executed, as the front end sent it; empty where none did."""
    code = _of_parent(shell, "content").get("code")
    return code if isinstance(code, str) else ""


def is_cell(shell: Any) -> bool:
    """Whether what is being executed is a cell: front ends execute code of their own, silently or without a number."""
    content = _of_parent(shell, "content")
    return content.get("silent") is not True and content.get("store_history") is not False


def _of_parent(shell: Any, part: str) -> dict[str, Any]:
    """Return a part of the front end's request; an empty one where there is none."""
    get_parent = getattr(shell, "get_parent", None)
    parent = get_parent() if callable(get_parent) else None
    found = parent.get(part) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}
