"""Refuses to set environment variables that are settled on the ranks: by `--env`, in the kernel or in a cell.

Runs on: kernel and every rank. Imports nothing heavy.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

# Horovod's own choice is the only valid value of these. A controller other than MPI finds no peer, and its
# initialisation never ends. Source: horovod 0.28.1, horovod/common/utils/env_parser.cc
_ONLY_MPI = ("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS")
# Which rank this is, and where its peers are: mpiexec sets it. Source: horovod 0.28.1, horovod/common/gloo/
# gloo_context.h, horovod/runner/common/util/env.py; Open MPI 5, PMIx 5, MPICH 4, Intel MPI's and jsrun's
# variables of a rank.
_OF_A_RANK = re.compile(
    r"HOROVOD_(GLOO_\w+|RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|ELASTIC|SECRET_KEY|HOST_ID)"
    r"|OMPI_COMM_WORLD_\w+|OMPI_UNIVERSE_SIZE|OMPI_FILE_LOCATION"
    r"|PMIX_(RANK|NAMESPACE|ID|SERVER_\w+|HOSTNAME|NODEID)"
    r"|PMI_(RANK|SIZE|FD|PORT|ID|UNIVERSE_SIZE)|MPI_LOCALRANKID|MPI_LOCALNRANKS|JSM_NAMESPACE_\w+"
)
_PREFIXES = ("HOROVOD_", "OMPI_", "PMI", "MPI_", "JSM_")
_BACKEND = "KERAS_BACKEND"
# The backends of Keras on which the ranks exchange gradients.
BACKENDS = ("tensorflow", "torch", "jax")


def is_settled(name: str) -> bool:
    """Return whether a variable is settled, so that only a value that changes nothing may be set."""
    return name.startswith(_PREFIXES) and (name in _ONLY_MPI or _OF_A_RANK.fullmatch(name) is not None)


def changes(name: str, value: str | None) -> bool:
    """Return whether giving a variable this value, or removing it where that is None, changes what is settled."""
    if name in _ONLY_MPI:
        return (value or "mpi").strip().lower() != "mpi"
    return _OF_A_RANK.fullmatch(name) is not None


def refusal(assignments: str) -> InvalidInput:
    """Return the error for such variables.

    Args:
        assignments: what was set, and where.
    """
    return InvalidInput(
        "The ranks find each other through MPI, as mpiexec has started them, and no variable can change that.",
        assignments,
        "Leave it out: -n says how many ranks there are, and Horovod's default is MPI.",
    )


def check(environment: Mapping[str, str], inherited: Mapping[str, str]) -> None:
    """Raise where the ranks would not find each other, or Keras would train on a backend that exchanges nothing.

    Args:
        environment: what the user gives to the ranks.
        inherited: their other variables: those of the process that starts them.

    Raises:
        InvalidInput: as above.
    """
    # A kernel inside an MPI job has a rank's variables of that job; each rank's mpiexec sets them again.
    theirs = {name: inherited[name] for name in _ONLY_MPI if name in inherited} | dict(environment)
    settled = [f"{name}={value}" for name, value in theirs.items() if changes(name, value)]
    if settled:
        raise refusal(" ".join(settled))
    check_backend({**inherited, **environment})


def check_backend(environment: Mapping[str, str]) -> None:
    """Raise unless Keras would choose a backend on which the ranks exchange gradients.

    Raises:
        InvalidInput: it would choose another.
    """
    if environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return  # Keras 2 has no other
    backend, where = environment.get(_BACKEND, ""), f"{_BACKEND}="
    if not backend:
        path = _keras_folder(environment) / "keras.json"
        backend, where = _in_file(path), f"{path} with backend "
    if backend and backend not in BACKENDS:
        raise backend_refusal(f"{where}{backend}")


def backend_refusal(received: str) -> InvalidInput:
    """Return the error for another backend."""
    return InvalidInput(
        "Keras on the ranks must use TensorFlow, PyTorch or JAX: training on another backend exchanges no gradients.",
        received,
        f"Set {_BACKEND}=tensorflow, {_BACKEND}=torch or {_BACKEND}=jax, or remove it.",
    )


def _keras_folder(environment: Mapping[str, str]) -> Path:
    # Source: keras 3.15, src/backend/config.py
    folder = environment.get("KERAS_HOME", "")
    return Path(folder).expanduser() if folder else Path(environment.get("HOME", "~")).expanduser() / ".keras"


def _in_file(path: Path) -> str:
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError):
        return ""  # Keras ignores what it cannot read
    return str(settings.get("backend", "")) if isinstance(settings, dict) else ""
