"""Pickles variables one after the other into one file: what two of them share is shared when they are loaded.

A torch optimizer and its model are two variables with the same parameters: apart, each would get parameters of its own,
and the model would train no more. So one pickler writes all; what fails is taken back.

Keras pickles a model, a layer or an optimizer as a file of its own, which shares nothing. So of those that have weights
in common only the first is kept.

Runs on: every rank.
"""

from __future__ import annotations

import importlib
import pickle
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.error_text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

_KERAS = ("keras.", "tf_keras.")
# What is made for one world of ranks: in another it would wait for ranks that are gone.
_OF_A_WORLD = ("torch.distributed", "torch.nn.parallel", "horovod.", "mpi4py", "ipyparallel")


class Writer(pickle.Pickler):
    """Writes variables, one after the other.

    Args:
        file: to write to.

    Example:
        >>> writer = Writer(file)
        >>> writer.problem_with([1, 2])
        >>> writer.problem_with(threading.Lock())
        "TypeError: cannot pickle '_thread.lock' object"
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, protocol=5)
        self._file = file
        # Of each weight of Keras's that was written, what it belongs to.
        self._weights: dict[int, Any] = {}

    def problem_with(self, value: object) -> str | None:
        """Write a value; return why that cannot be, and then it was not written."""
        place, memo, weights = self._file.tell(), self.memo.copy(), dict(self._weights)
        try:
            self.dump(value)
        except Exception as error:  # noqa: BLE001  whatever the code of the value's class raises
            self._file.seek(place)
            self._file.truncate()
            self.memo, self._weights = memo, weights
            return f"{type(error).__name__}: {text_of(error)}"
        return None

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is pickled. Called for each that is of no type of Python's own."""
        if isinstance(value, ModuleType):
            return importlib.import_module, (value.__name__,)
        kinds = [kind.__module__ for kind in type(value).__mro__]
        if any(kind.startswith(_OF_A_WORLD) for kind in kinds):
            raise pickle.PicklingError(f"a {type(value).__name__} belongs to the ranks that are ended")
        if is_of_keras(value) and (weights := weights_of(value)):
            return self._of_keras(value, weights)
        return NotImplemented

    def _of_keras(self, value: Any, weights: list[Any]) -> Any:
        """Check that what Keras pickles is apart from the rest, and that Keras loads it again."""
        for weight in weights:
            if not getattr(getattr(weight, "_value", None), "is_fully_replicated", True):
                raise pickle.PicklingError("its weights are divided over the ranks that are ended: save it in a cell")
            if self._weights.setdefault(id(weight), value) is not value:
                owner = type(self._weights[id(weight)]).__name__
                raise pickle.PicklingError(
                    f"its weights are those of a {owner} that is kept, and Keras would copy them"
                )
        optimizer = _optimizer_of(value)
        if any(kind.__module__.startswith(_OF_A_WORLD) for kind in type(optimizer).__mro__):
            raise pickle.PicklingError("its optimizer belongs to the ranks that are ended: make it again")
        # Keras saves a distributed optimizer as a plain one.
        distribution = optimizer.kept_distribution() if hasattr(optimizer, "kept_distribution") else None
        reduced = value.__reduce__()
        rebuilt = reduced[0](*reduced[1])
        if len(weights_of(rebuilt)) != len(weights):
            raise pickle.PicklingError(f"Keras does not save all of a {type(value).__name__}: make it again")
        return reduced if distribution is None else (_distributed, (reduced[0], reduced[1], *distribution))


def _distributed(load: Callable[..., Any], arguments: tuple[Any, ...], distribute: Any, settings: Any) -> Any:
    """Return a value of Keras's whose optimizer exchanges gradients, as before."""
    value = load(*arguments)
    distribute(_optimizer_of(value), settings)
    return value


def _optimizer_of(value: Any) -> Any:
    """Return the optimizer that a model is compiled with; None for a layer, and an optimizer itself."""
    return getattr(value, "optimizer", None)


def weights_of(value: Any) -> list[Any]:
    """Return the variables of a model, layer, metric or optimizer of Keras's, with those of a model's optimizer."""
    return [*_own_weights(value), *_own_weights(_optimizer_of(value))]


def _own_weights(value: Any) -> list[Any]:
    try:
        found = getattr(value, "variables", None)
    except Exception:  # noqa: BLE001  Keras 2's model that is not built, or a property of the user's class
        return []
    # Keras 2's older optimizers have a method of that name.
    return list(found) if isinstance(found, list | tuple) else []


def is_of_keras(value: Any) -> bool:
    """Return whether a value is of a class of Keras's, or of one that is made from it."""
    return any(kind.__module__.startswith(_KERAS) for kind in type(value).__mro__)
