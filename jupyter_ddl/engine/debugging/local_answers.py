"""Answers what JupyterLab asks a debugger beside the protocol: cells, sources, and variables while nothing is held.

Source: ipykernel 7.4, debugger.py (debugInfo, inspectVariables, source, accept_variable); jupyterlab 4.6, service.ts

Runs on: every rank, in the debugger's own thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ipykernel.compiler import get_tmp_hash_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_ddl.engine.debugging.cell_sources import CellSources

# IPython's own, beside the user's.
_IPYTHONS = re.compile(
    r"_+|_i+\d*|_\d+|_[oid]h|In|Out|__.*__|get_ipython|exit|quit|open|debugpy|(special|function|class) variables"
)
_SHOWN_BY_VALUE = (bool, int, float, complex, str, bytes, type(None))
_MAX_CHARACTERS = 200
_MAX_VARIABLES = 1000


def is_users(name: str) -> bool:
    """Return whether a variable is one of the user's, by its name."""
    return _IPYTHONS.fullmatch(name) is None


class LocalAnswers:
    """What is answered without pydevd.

    Args:
        cells: the cells of this debugger.
        namespace: the user's.
    """

    def __init__(self, cells: CellSources, namespace: Mapping[str, Any]) -> None:
        self._cells = cells
        self._namespace = namespace
        self._deeds: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "dumpCell": self._dump_cell,
            "source": self._source,
            "inspectVariables": self._variables,
            "modules": lambda _: {"modules": [], "totalModules": 0},
            "configurationDone": lambda _: {},
        }

    def knows(self, command: str) -> bool:
        """Return whether a command is answered here."""
        return command in self._deeds

    def to(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer's body.

        Raises:
            OSError: a cell's file cannot be written.
            LookupError: what is asked for is not there.
        """
        return self._deeds[command](arguments)

    def info(
        self, *, is_started: bool, breakpoints: Mapping[str, list[dict[str, Any]]], held: list[int]
    ) -> dict[str, Any]:
        """Return the body of `debugInfo`.

        Args:
            is_started: a page debugs this rank.
            breakpoints: file -> its breakpoints.
            held: the threads that are held.
        """
        return {
            "isStarted": is_started,
            "hashMethod": "Murmur2",
            "hashSeed": get_tmp_hash_seed(),
            "tmpFilePrefix": self._cells.prefix,
            "tmpFileSuffix": ".py",
            "breakpoints": [{"source": source, "breakpoints": lines} for source, lines in breakpoints.items()],
            "stoppedThreads": held,
            "richRendering": False,
            "exceptionPaths": ["Python Exceptions"],
            "copyToGlobals": False,
        }

    def _dump_cell(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"sourcePath": self._cells.add(str(arguments["code"]))}

    def _source(self, arguments: dict[str, Any]) -> dict[str, Any]:
        path = str(arguments["source"]["path"])
        text = self._cells.text(path)
        if text is None:
            raise LookupError(f"A source must be there. Received: {path}, which is not.")
        return {"content": text}

    def _variables(self, _: dict[str, Any]) -> dict[str, Any]:
        # In the moment of a copy the user's thread may add a name: the copy itself is one step of Python.
        names = [(name, value) for name, value in dict(self._namespace).items() if is_users(name)]
        return {"variables": [_variable(name, value) for name, value in names[:_MAX_VARIABLES]]}


def _variable(name: str, value: Any) -> dict[str, Any]:
    """Describe a variable. The user's own `repr` may take long, and would run in the debugger's thread."""
    kind = type(value)
    text = repr(value)[:_MAX_CHARACTERS] if kind in _SHOWN_BY_VALUE else kind.__name__
    return {"name": name, "value": text, "type": kind.__name__, "evaluateName": name, "variablesReference": 0}
