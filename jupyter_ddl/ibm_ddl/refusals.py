"""Refuses what `import ddl` cannot distribute, with the reason and what to write instead. Runs on: every rank."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from mpi4py import MPI

from jupyter_ddl.engine import run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training import keras_version

_RULE = "import ddl distributes a program of Keras 3, or of TensorFlow's sessions, over all ranks."
_DIVIDE = (
    "Divide the data with ddl.rank() and ddl.size() before the first update: then the gradients are averaged over the "
    "ranks."
)


def refuse_program() -> None:
    """Raise where the program that imports `ddl` cannot be distributed.

    Raises:
        InvalidInput: some ranks run it, or each by itself; there is no Keras 3, or no Horovod.
    """
    running = run_context.current()
    world_size = MPI.COMM_WORLD.size
    if running is not None and running.ranks < world_size:
        raise InvalidInput(_RULE, f"a cell on {running.ranks} of {world_size} ranks", "Drop -r.")
    if running is not None and running.options.independent:
        raise InvalidInput(
            _RULE, "--independent", "Drop one of the two: with --independent each rank trains a model of its own."
        )
    if keras_version.is_missing():
        raise InvalidInput(
            _RULE, "no Keras", "Install tensorflow, or keras and torch; a loop of PyTorch's runs with --auto."
        )
    if not keras_version.uses_keras_3():
        raise InvalidInput(
            _RULE, "Keras 2", "Import Keras 3, without TF_USE_LEGACY_KERAS; or write the program with Horovod."
        )


def refuse_backend(backend: str) -> None:
    """Raise where Keras computes with what `ddl` does not exchange through, or its exchange is not installed.

    Raises:
        InvalidInput: it is JAX; or TensorFlow, and there is no Horovod.
    """
    if backend == "jax":
        raise InvalidInput(_RULE, "Keras on JAX", "Leave import ddl out, and pass --auto --batch global.")
    if backend == "tensorflow":
        try:
            metadata.version("horovod")
        except metadata.PackageNotFoundError as error:
            raise InvalidInput(
                "import ddl connects the ranks by Horovod.", "no Horovod", "Run: jupyter ddl build-horovod"
            ) from error


def refuse_auto() -> None:
    """Raise for `--auto` with a program that divides its data.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "--auto divides the data of a program that does not.",
        "a program that has read ddl.rank() and ddl.size()",
        "Drop --auto; or drop the program's own division.",
    )


def refuse_loop(optimizer: Any) -> None:
    """Raise for an update whose data no rank divides.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(
        "import ddl alone distributes fit and train_on_batch: it cannot know which data a loop of the program's own "
        "is for.",
        f"an update by {type(optimizer).__name__} outside of them",
        _DIVIDE,
    )
