"""Finds environment variables that a cell set too late.

TensorFlow is imported in the background before the first cell, so a variable that it reads at import does nothing when
a cell sets it. Undetected, the program would train on other settings than it says.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol import settled_variables

# Not here, because setting them late is harmless: CUDA_VISIBLE_DEVICES and TF_FORCE_GPU_ALLOW_GROWTH, which old
# Horovod programs set to what our start-up has already done, and TF_CPP_MIN_LOG_LEVEL, which only quiets.
READ_AT_IMPORT = (
    "KERAS_BACKEND",
    "KERAS_HOME",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
    "TF_GPU_ALLOCATOR",
    "TF_GPU_THREAD_MODE",
    "TF_GPU_THREAD_COUNT",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "CUDA_DEVICE_ORDER",
)
# Values that programs set, and that hold anyway.
_AS_IT_IS = {
    "KERAS_BACKEND": ("tensorflow",),
    "TF_USE_LEGACY_KERAS": ("", "0", "false"),
    "TF_ENABLE_ONEDNN_OPTS": ("1", "true"),
}
_OF_KERAS = ("KERAS_",)
# Too late, but no result depends on them: a rank has its device already, and TensorFlow has threads of its own.
_HARMLESS = ("OMP_NUM_THREADS", "CUDA_DEVICE_ORDER")


class LateVariables:
    """The variables as they were when the cell began."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}
        # All of the process's, and whether Keras was there: where both are as they were, nothing need be looked up.
        self._environment: dict[bytes, bytes] | None = None
        self._had_keras = False
        # Whether the rank imports Keras before the first cell; where it does not, a cell may choose the backend first.
        self.imports_keras = True

    def snapshot(self) -> None:
        """Note the variables' values now, for `check` and `put_back`."""
        environment, has_keras = _environment(), "keras" in sys.modules
        if environment is not None and (environment, has_keras) == (self._environment, self._had_keras):
            return
        self._environment, self._had_keras = environment, has_keras
        names = _watched()
        if not self.imports_keras and not has_keras:
            names = [name for name in names if not name.startswith(_OF_KERAS)]
        self._before = {name: os.environ.get(name) for name in names}

    def check(self) -> None:
        """Raise if the cell has set one of them so far; `fit` calls this before it trains.

        Raises:
            InvalidInput: as `put_back` says.
        """
        if self._before and (late := self.put_back()) is not None:
            raise late

    def put_back(self) -> InvalidInput | None:
        """Undo what was changed since `snapshot`; return the error that says so, or None where nothing was."""
        if self._environment is not None and self._environment == _environment():
            return None
        return _put_back(self._before)


def _environment() -> dict[bytes, bytes] | None:
    """Return a copy of the process's variables, which is made in C; None where a cell has replaced `os.environ`.

    Source: CPython 3.10 to 3.13, Lib/os.py, class _Environ.
    """
    data = getattr(os.environ, "_data", None)
    return dict(data) if isinstance(data, dict) else None


def _put_back(before: dict[str, str | None]) -> InvalidInput | None:
    changed = {
        name: os.environ.get(name)
        for name in {**before, **dict.fromkeys(_watched())}
        if name in before or not name.startswith(_OF_KERAS)
        if os.environ.get(name) != before.get(name)
    }
    changed = {name: value for name, value in changed.items() if not _is_as_it_was(name, value, before.get(name))}
    for name in changed:
        value = before.get(name)
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    harmless = {name: changed.pop(name) for name in _HARMLESS if name in changed}
    if harmless:
        print(f"WARNING: {_too_late(harmless)}", file=sys.stderr)
    settled = {name: value for name, value in changed.items() if settled_variables.is_settled(name)}
    if settled:
        return settled_variables.refusal(f"{_assignments(settled)}, set in a cell (put back)")
    if (backend := changed.get("KERAS_BACKEND")) is not None and backend not in settled_variables.BACKENDS:
        return settled_variables.backend_refusal(f"KERAS_BACKEND={backend}, set in a cell (put back)")
    return _too_late(changed) if changed else None


def _watched() -> list[str]:
    return [*READ_AT_IMPORT, *(name for name in os.environ if settled_variables.is_settled(name))]


def _is_as_it_was(name: str, value: str | None, before: str | None) -> bool:
    """Return whether a change changes nothing."""
    if settled_variables.is_settled(name):
        return not (settled_variables.changes(name, value) or settled_variables.changes(name, before))
    holds = _AS_IT_IS.get(name, ())
    return bool(holds) and all(each is None or each.lower() in holds for each in (value, before))


def _assignments(changed: dict[str, str | None]) -> str:
    return " ".join(f"{name}={value or ''}" for name, value in changed.items())


def _too_late(changed: dict[str, str | None]) -> InvalidInput:
    options = " ".join(f"--env {name}={value or ''}" for name, value in changed.items())
    return InvalidInput(
        "TensorFlow reads this variable when it is imported, which happens when the ranks start.",
        f"{_assignments(changed)}, set in a cell (put back)",
        f"Start the ranks with it: %ddl stop, then %ddl start {options}",
    )
