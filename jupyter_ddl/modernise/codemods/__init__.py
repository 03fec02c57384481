"""Codemods: each rewrites one subject's old spellings, where today's mean the same, and leaves the others alone.

A codemod that has run changes nothing when it runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.modernise.codemods.backend import Backend
from jupyter_ddl.modernise.codemods.callbacks import Callbacks
from jupyter_ddl.modernise.codemods.collectives import Collectives
from jupyter_ddl.modernise.codemods.compile_and_fit import CompileAndFit
from jupyter_ddl.modernise.codemods.horovod_imports import HorovodImports
from jupyter_ddl.modernise.codemods.metric_names import Logs
from jupyter_ddl.modernise.codemods.moved import Moved
from jupyter_ddl.modernise.codemods.optimizers import Optimizers
from jupyter_ddl.modernise.codemods.pai4sk_names import Pai4skNames
from jupyter_ddl.modernise.codemods.sessions import Sessions
from jupyter_ddl.modernise.codemods.sklearn_names import SklearnNames

if TYPE_CHECKING:
    from jupyter_ddl.modernise.names import Codemod

CODEMODS: tuple[type[Codemod], ...] = (
    Sessions,
    Moved,
    Callbacks,
    Optimizers,
    Backend,
    CompileAndFit,
    Logs,
    Collectives,
    HorovodImports,
    SklearnNames,
    Pai4skNames,
)
