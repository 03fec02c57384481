"""Finds environment variables that a cell set too late.

TensorFlow is imported in the background before the first cell, so a variable that it reads at import does nothing when
a cell sets it. Left alone, the program would train on other settings than it says, and nothing would tell.

Runs on: every rank.
"""

from __future__ import annotations

import os

from jupyter_ddl.errors import InvalidInput

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


def snapshot() -> dict[str, str | None]:
    """Return the variables' values now."""
    return {name: os.environ.get(name) for name in READ_AT_IMPORT}


def put_back(before: dict[str, str | None]) -> InvalidInput | None:
    """Undo what a cell changed since `before`; return the error that says so, or None where it changed nothing."""
    changed = {name: os.environ.get(name) for name, value in before.items() if os.environ.get(name) != value}
    if not changed:
        return None
    for name in changed:
        value = before[name]
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    assignments = " ".join(f"{name}={value or ''}" for name, value in changed.items())
    options = " ".join(f"--env {name}={value or ''}" for name, value in changed.items())
    return InvalidInput(
        "TensorFlow reads this variable when it is imported, which happens when the ranks start.",
        f"{assignments}, set in a cell (put back)",
        f"Start the ranks with it: %ddl stop, then %ddl start {options}",
    )
