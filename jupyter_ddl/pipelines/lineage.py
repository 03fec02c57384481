"""Records how datasets are made: by which function, of which inputs, with which arguments.

tf.data has no public way to look into a pipeline, and its private ones change from version to version. So the public
methods and constructors that make a dataset are wrapped, once, and each dataset carries a recipe from then on. With it
a pipeline can be made again, by the same functions, of other inputs or with other arguments.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.pipelines.shard_rules import READERS, WAYS, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Kept on the dataset itself, so that it lives exactly as long.
_ATTRIBUTE = "_jupyter_ddl_recipe"
# The parameters in which operations take datasets, alone or in a structure.
_TAKE_DATASETS = ("self", "args", "dataset", "datasets", "choice_dataset", "weights", "filenames")


@dataclass(frozen=True)
class Recipe:
    """How a dataset was made.

    Attributes:
        name: the method or class, e.g. "map".
        make: the function, which gives what it makes a recipe in turn; takes `arguments`.
        arguments: by name, as they were given; empty for a source, whose data would be held twice.
        inputs: the datasets among the arguments, in order.
    """

    name: str
    make: Callable[..., Any]
    signature: inspect.Signature
    arguments: Mapping[str, Any]
    inputs: tuple[Any, ...]

    def made_of(self, inputs: Sequence[Any], **changes: Any) -> Any:
        """Make the dataset again, of other inputs and with some arguments changed."""
        following = iter(inputs)

        def other(value: Any) -> Any:
            return next(following) if _is_dataset(value) else value

        arguments = {
            name: tf.nest.map_structure(other, value) if name in _TAKE_DATASETS else value
            for name, value in self.arguments.items()
        }
        bound = inspect.BoundArguments(self.signature, {})
        # In the order of the signature, as BoundArguments needs them.
        together = {**arguments, **changes}
        bound.arguments.update({name: together[name] for name in self.signature.parameters if name in together})
        return self.make(*bound.args, **bound.kwargs)

    def argument(self, name: str) -> Any:
        """Return an argument as it was given, or its default."""
        return self.arguments.get(name, self.signature.parameters[name].default)


def recipe_of(dataset: Any) -> Recipe | None:
    """Return how a dataset was made; None where that is not known."""
    found: Recipe | None = getattr(dataset, _ATTRIBUTE, None)
    return found


def rebuilt(dataset: Any, make: Callable[[Recipe, Any, tuple[Any, ...]], Any]) -> Any:
    """Make a pipeline again from its sources upwards; what is used twice is made once.

    Args:
        dataset: the pipeline's end.
        make: called with a recipe, the dataset it made, and its new inputs; returns its replacement.
    """
    made: dict[int, Any] = {}

    def again(old: Any) -> Any:
        recipe = recipe_of(old)
        if recipe is None:
            return old
        if id(old) not in made:
            made[id(old)] = make(recipe, old, tuple(again(each) for each in recipe.inputs))
        return made[id(old)]

    return again(dataset)


def install() -> None:
    """Record how every dataset is made from now on. Safe to call twice."""
    # The patches have TensorFlow's own module and name, so autograph leaves them as they are, too.
    for name, way in WAYS.items():
        if callable(inspect.getattr_static(tf.data.Dataset, name, None)):
            patch(tf.data.Dataset, name, _Remembering(name, way), Layer.DATA)
    for name in READERS:
        patch(getattr(tf.data, name), "__init__", _RememberingReader(name), Layer.DATA)
    patch(tf.data.experimental, "assert_cardinality", _assert_cardinality, Layer.DATA)


_signature = functools.cache(inspect.signature)


@dataclass(frozen=True)
class _Remembering:
    """Attaches a recipe to the datasets that a method makes."""

    name: str
    way: Way

    def __call__(self, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        dataset = stock(*args, **kwargs)
        make = getattr(tf.data.Dataset, self.name)
        given = (args, kwargs) if self.way is not Way.STANDS else ((), {})
        _remember(dataset, self.name, make, _signature(stock), given)
        return dataset


@dataclass(frozen=True)
class _RememberingReader:
    """Attaches a recipe to the datasets of a class that reads files."""

    name: str

    def __call__(self, stock: Callable[..., None], dataset: Any, *args: Any, **kwargs: Any) -> None:
        stock(dataset, *args, **kwargs)
        _remember(dataset, self.name, type(dataset), _signature_without_self(stock), (args, kwargs))


@functools.cache
def _signature_without_self(stock: Callable[..., None]) -> inspect.Signature:
    """Return what a constructor takes besides the object, which is not there yet when the reader is made again."""
    signature = inspect.signature(stock)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _assert_cardinality(stock: Callable[..., Any], expected_cardinality: Any) -> Callable[[Any], Any]:
    """Record the assertion: what holds for the whole is false for a part."""

    def asserted(dataset: Any, expected_cardinality: Any) -> Any:
        result = stock(expected_cardinality)(dataset)
        _remember(result, "assert_cardinality", asserted, signature, ((dataset, expected_cardinality), {}))
        return result

    signature = inspect.signature(asserted)
    return lambda dataset: asserted(dataset, expected_cardinality)


def _remember(
    dataset: Any,
    name: str,
    make: Callable[..., Any],
    signature: inspect.Signature,
    given: tuple[Sequence[Any], Mapping[str, Any]],
) -> None:
    # Inside a function that is traced, a dataset is a part of that function.
    if not tf.executing_eagerly():
        return
    args, kwargs = given
    arguments = signature.bind_partial(*args, **kwargs).arguments
    inputs = tuple(
        value
        for parameter, given_value in arguments.items()
        if parameter in _TAKE_DATASETS
        for value in tf.nest.flatten(given_value)
        if _is_dataset(value)
    )
    # An operation that returned its input has made nothing.
    if not any(dataset is each for each in inputs):
        setattr(dataset, _ATTRIBUTE, Recipe(name, make, signature, arguments, inputs))


def _is_dataset(value: Any) -> bool:
    return isinstance(value, tf.data.Dataset)
