"""Finds the imports, functions and classes of cells as source, and runs them again.

A function of a cell finds its variables in the notebook's namespace, and an object its class. Pickled by value, each
would get copies of its own, and would not see what later cells change. So their source is kept, and what was made with
them is pickled by their names.

Runs on: every rank.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.error_text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_CALL = "run_cell_magic"
# Their cells are code; those of others may be anything.
_CODE_MAGICS = ("time", "capture")


def definitions(cells: Iterable[str], shell: Any) -> list[str]:
    r"""Return the source of each import, function and class at the top of cells, in the order in which they ran.

    Args:
        cells: what IPython has run, its magics in the form of calls.
        shell: IPython's, which knows how its magics become calls.

    Example:
        >>> definitions(["import math\nx = 1\ndef half(x):\n    return x / 2"], get_ipython())
        ['import math', 'def half(x):\n    return x / 2']
    """
    return [
        ast.unparse(statement)
        for cell in cells
        for statement in _statements(cell, shell)
        if isinstance(statement, _Named | ast.Import | ast.ImportFrom)
    ]


def defined_names(sources: Iterable[str]) -> set[str]:
    """Return the names that definitions give."""
    found = set()
    for source in sources:
        statement = ast.parse(source).body[0]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).partition(".")[0] for one in statement.names}
        elif isinstance(statement, _Named):
            found.add(statement.name)
    return found


def define(sources: Iterable[str], shell: Any) -> dict[str, str]:
    """Run definitions in the shell's namespace; return those that raised: the first line -> what they raised."""
    raised = {}
    for source in sources:
        try:
            # Registered as IPython does it: tf.function, and a debugger, read a function's source.
            file = shell.compile.cache(source)
            exec(shell.compile(source, file, "exec"), shell.user_ns)  # noqa: S102  what the user's cells ran before
        except Exception as error:  # noqa: BLE001  a decorator, or a default, of something that is not there yet
            raised[source.partition("\n")[0]] = f"{type(error).__name__}: {text_of(error)}"
    return raised


def _statements(cell: str, shell: Any) -> Iterator[ast.stmt]:
    """Yield the statements at the top of a cell, and of one under %%time or %%capture."""
    try:
        statements = ast.parse(cell).body
    except (SyntaxError, ValueError):
        # It was an error when it ran, too.
        return
    for statement in statements:
        body = _code_of_magic(statement)
        if body is None:
            yield statement
        else:
            yield from _statements(shell.transform_cell(body), shell)


def _code_of_magic(statement: ast.stmt) -> str | None:
    """Return the cell of a magic whose cell is code; None where the statement is no such call."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != _CALL:
        return None
    given = [part.value for part in call.args if isinstance(part, ast.Constant)]
    return str(given[2]) if len(given) == 3 and given[0] in _CODE_MAGICS else None
