"""Has Snap ML train in the rank's own process, where the wheel lacks the library of its MPI training.

It takes a process with OMPI_COMM_WORLD_LOCAL_RANK for one of its own distributed ones, and each training then imports
that library. Source: snapml 1.17.2, utils.py, _is_mpi_enabled.

Runs on: every rank.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_LIBRARY = "libsnapmlmpi*"


def install() -> None:
    """Wait for its import."""
    import_hooks.when_imported("snapml.utils", _train_alone)


def _train_alone(utils: ModuleType) -> None:
    if utils.__file__ is not None and not any(Path(utils.__file__).parent.glob(_LIBRARY)):
        patch(utils, "_is_mpi_enabled", _is_not, Layer.RANK)


def _is_not(_stock: Callable[[], bool]) -> bool:
    return False
