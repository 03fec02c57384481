"""Patches scikit-learn as a program imports it: by scikit-learn-intelex on cores, by cuML's accelerator on GPUs.

Rank 0 says which algorithms are taken over, and of each method that falls back to scikit-learn's own, once, which.

Runs on: every rank.
"""

from __future__ import annotations

import logging
import os
import re
from importlib import metadata
from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks
from jupyter_ddl.paths import SKLEARN_VARIABLE
from jupyter_ddl.protocol.sklearn_names import CUML, INTELEX, NONE, checked_sklearn

if TYPE_CHECKING:
    from types import ModuleType

# Source: scikit-learn-intelex 2026.2, daal4py/sklearn/_utils.py and onedal: "sklearn.svm.SVC.fit: fallback to original
# Scikit-learn"
_FALLBACK = re.compile(r"(?:sklearn\.)?(\S+): fallback to original Scikit-learn", re.IGNORECASE)
# Of the names that it replaces, those that are no algorithm.
_NO_ALGORITHM = re.compile(r"config|_gb_losses|utils\.parallel|Dummy|train_test_split")


def install(rank: int) -> None:
    """Patch scikit-learn as the environment says, once it is imported.

    Raises:
        InvalidInput: no accelerator has that name, or it is not installed.
    """
    choice = checked_sklearn(os.environ.get(SKLEARN_VARIABLE) or NONE)
    if choice == CUML:
        # It acts on imports itself, and must come before them.
        from cuml.accel import install as accelerate

        accelerate()
        if rank == 0:
            import_hooks.when_imported("sklearn", _tell_of_cuml)
    elif choice == INTELEX:
        import_hooks.when_imported("sklearn", _Intelex(rank).patch)


class _Intelex:
    """scikit-learn-intelex on one rank.

    Args:
        rank: this one; 0 reports.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def patch(self, _sklearn: ModuleType) -> None:
        """Patch scikit-learn, which has just been imported."""
        from sklearnex import get_patch_names, patch_sklearn

        patch_sklearn(verbose=False)
        if self._rank == 0:
            names = {name.rpartition(".")[2] for name in get_patch_names() if not _NO_ALGORITHM.search(name)}
            version = metadata.version("scikit-learn-intelex")
            print(
                f"scikit-learn on the ranks is accelerated by scikit-learn-intelex {version}: "
                f"{', '.join(sorted(names))}. All else, and these with parameters that it lacks, is scikit-learn's own."
            )
            _watch(logging.getLogger("sklearnex"))


def _watch(logger: logging.Logger) -> None:
    """Print each fallback once; what else the library logs at that level is shown to no one."""
    logger.handlers[:] = [_Fallbacks()]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Fallbacks(logging.Handler):
    """Prints which methods fall back to scikit-learn's own, each once."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        found = _FALLBACK.search(record.getMessage())
        if found and found[1] not in self._told:
            self._told.add(found[1])
            print(f"{found[1]} falls back to scikit-learn's own: scikit-learn-intelex lacks a parameter of this call.")


def _tell_of_cuml(_sklearn: ModuleType) -> None:
    print(
        f"scikit-learn on the ranks is accelerated by cuML {metadata.version('cuml')} on the GPUs. What it lacks is "
        "scikit-learn's own; %%distributed with cuml.accel.profile() says which calls were."
    )
