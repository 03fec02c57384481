"""Decides when Horovod runs: from before a cell that names it, or when a rank first needs it, until after the cell.

An idle Horovod keeps a core of each rank busy, and initialising it takes all ranks together, and some milliseconds. So
the kernel decides for all of them at once.

Runs on: kernel.
"""

from __future__ import annotations

import ast
import re

# A cell that names one of these may enter a collective without calling `hvd.init()` itself.
_NAMES = re.compile(r"\b(horovod|hvd|jupyter_ddl|ddl)\b")


class HorovodTurns:
    """Decides for one world of ranks, from what its runs report.

    Args:
        is_used: code on the ranks has called `hvd.init()` already, for another kernel.

    Attributes:
        is_used: code on the ranks has called `hvd.init()`, so that a cell that begins without may need it.
        asked_for: the run for which it was last started after the cell had begun; "" for none.
    """

    def __init__(self, *, is_used: bool = False) -> None:
        self.is_used = is_used
        self.asked_for = ""
        self._runs = False

    def begins_with(self, code: str, *, always: bool = False) -> bool:
        """Return whether Horovod must be initialised on all ranks before this cell.

        Yes where the cell names it, but not for a cell that runs nothing. A cell that we distribute, or whose timeline
        is recorded (`always`), need not name it. In any other cell, code that has called `hvd.init()` before, also a
        module's, has it started when a rank first needs it.
        """
        begins = (always or bool(_NAMES.search(code))) and not only_defines(code)
        self._runs |= begins
        return begins

    def starts(self, run: str) -> bool:
        """Return whether Horovod must be started for a run in which a rank needs it: once in each."""
        if self.asked_for == run:
            return False
        self.asked_for, self._runs = run, True
        return True

    def rests_after(self, *, uses_horovod: bool, runs: bool, idle: bool) -> bool:
        """Return whether Horovod must be shut down on all ranks.

        Args:
            uses_horovod: a rank has called `hvd.init()`, in the run that ended or before.
            runs: Horovod was initialised on a rank when the run ended there.
            idle: no other run is active.
        """
        self.is_used |= uses_horovod
        self._runs |= runs
        rests = self._runs and idle
        self._runs &= not rests
        return rests


# What runs no code but its own: no call, no attribute, no operator, no import, nothing that shows a value.
_DEFINITIONS = (ast.Module, ast.Pass, ast.Assign, ast.Expr, ast.Constant, ast.Name, ast.Store, ast.Load)


def only_defines(code: str) -> bool:
    """Return whether a cell does no more than define functions and set names to constants or each other.

    Such a cell cannot enter a collective, whatever the names stand for.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        # A magic, a shell command, or a mistake: the rank's IPython knows.
        return False
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if _runs_where_defined(node):
                return False
        elif not isinstance(node, _DEFINITIONS) or _shows_a_value(node):
            return False
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return True


def _runs_where_defined(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether defining a function evaluates anything: a decorator, a default, an annotation."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    annotated = function.returns is not None or any(argument and argument.annotation for argument in every)
    return bool(function.decorator_list or arguments.defaults or any(arguments.kw_defaults)) or annotated


def _shows_a_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
