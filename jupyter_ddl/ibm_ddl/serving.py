"""Serves the module `ddl` where the program has none of that name. Imports no framework. Runs on: every rank."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

from jupyter_ddl.engine import rank_state
from jupyter_ddl.host import import_hooks
from jupyter_ddl.ibm_ddl.uses import Uses

if TYPE_CHECKING:
    from types import ModuleType

NAME = "ddl"


def install() -> None:
    """Serve `import ddl` from here on, after all other finders. Safe to call twice."""
    import_hooks.serve_missing(_is_ours, _spec)
    import_hooks.whenever_imported(_is_ours, _note_own)
    rank_state.here().cells.prepare_with(_begin_cell)


def _is_ours(fullname: str) -> bool:
    return fullname == NAME


def _spec(fullname: str) -> ModuleSpec:
    return ModuleSpec(fullname, _Ddl())


def _begin_cell(_cell: object) -> None:
    """Prepare a cell of a program that has imported it. No collective: a cell may need none."""
    uses = rank_state.here().part(Uses)
    if uses.is_imported:
        uses.draws_alike = False
        # A cell that imports it again is a program of its own.
        import_hooks.forget(NAME)
        from jupyter_ddl.auto_distribution.plan import printed

        printed().begin()


def _note_own(module: ModuleType) -> None:
    """Say that the program's own module has been imported."""
    print(
        f"NOTE: import ddl gives {getattr(module, '__file__', None) or 'a package of the program'}, which is no module "
        "of IBM's DDL: it distributes nothing. Rename it to have jupyter_ddl's.",
        file=sys.stderr,
        flush=True,
    )


class _Ddl(Loader):
    """Begins to distribute the program, and puts our names in the module's place."""

    def create_module(self, _spec: ModuleSpec) -> None:
        """Have Python make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Do so.

        Collective: every rank must import `ddl`.

        Raises:
            InvalidInput: this program cannot be distributed.
        """
        from jupyter_ddl.ibm_ddl.refusals import refuse_program

        refuse_program()
        names = importlib.import_module("jupyter_ddl.ibm_ddl.names")
        names.begin()
        sys.modules[module.__name__] = names
