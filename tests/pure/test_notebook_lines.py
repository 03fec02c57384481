"""Cells on a rank are numbered as in the notebook."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_ddl.engine.notebook_lines import NotebookLines
from jupyter_ddl.kernel.magics.distributed import _lines_above

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    shell: Any = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.lines = NotebookLines(shell)
    yield shell
    # Tracebacks are formatted by the one that is the process's own.
    InteractiveShell.clear_instance()


def run(shell: Any, code: str, above: int, count: int | None, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a cell as a rank does; return what it tells, without colours."""
    shell.run_cell(shell.lines.placed(code, above, count))
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("code", "above", "told"),
    [
        ("x = 1\nraise ValueError('a')", 1, "Cell In[7], line 3\n"),
        ("\n\nraise ValueError('a')", 2, "Cell In[7], line 5\n"),
        ("x = 1\n)", 1, "Cell In[7], line 3\n"),
        ("  if True:\n      raise ValueError('a')", 3, "Cell In[7], line 5\n"),
        ("In [1]: x = 1\nIn [2]: raise ValueError('a')", 2, "Cell In[7], line 4\n"),
        (">>> raise ValueError('a')", 2, "Cell In[7], line 3\n"),
        # As it was: code that is in no notebook.
        ("raise ValueError('a')", 0, "Cell In[7], line 1\n"),
    ],
)
def test_a_traceback_names_the_line_and_the_prompt(
    shell: Any, code: str, above: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(shell, code, above, 7, capsys)
    assert told in found
    assert "Traceback" in found or "SyntaxError" in found


def test_a_function_of_an_earlier_cell_has_that_cells_number(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "def fails():\n    1 / 0", 1, 11, capsys)
    found = run(shell, "\nfails()", 1, 12, capsys)
    assert "Cell In[12], line 3\n" in found
    assert "Cell In[11], line 3, in fails()\n" in found


def test_a_magic_that_begins_the_code_is_still_one(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Wall time" in run(shell, "\n%%time\ny = 2", 1, 13, capsys)
    assert shell.user_ns["y"] == 2


def test_without_a_notebook_the_shells_own_number_stays(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"Cell In[{shell.execution_count}], line 2\n" in run(shell, "1 / 0", 1, None, capsys)


@pytest.mark.parametrize(
    ("code", "above"),
    [
        ("%%distributed\n1", 1),
        ("\n \n%%distributed -r 0\n1", 3),
        ("  %%distributed\n  1", 1),
        # Another magic has run it.
        ("%%time\n%%distributed\n1", 1),
        (None, 1),
    ],
)
def test_the_lines_above_the_code_are_counted(code: str | None, above: int) -> None:
    shell = SimpleNamespace(get_parent=lambda: {} if code is None else {"content": {"code": code}})
    assert _lines_above(shell) == above
    assert _lines_above(SimpleNamespace()) == 1
