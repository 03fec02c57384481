"""Makes a test function on JAX that keeps the model's state where no batch is left.

Keras takes the values out of a model's variables before it asks for a batch, and puts back those of `_jax_state`. Where
no batch is left that is the state of an earlier step: what callbacks have changed since is lost. A rank without a
batch of the validation would have the moving averages and weights of its own last step.

Source: keras 3.15, src/backend/jax/trainer.py, JAXTrainer.evaluate

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# In the order of the state that an evaluation's step takes.
_PARTS = ("trainable_variables", "non_trainable_variables", "metrics_variables")


def make_test_function(stock: Callable[..., Any], model: Any, force: bool = False) -> Any:
    """Make Keras's test function, which notes the state that it is given.

    Args:
        stock: Keras's `Model.make_test_function`.
        model: whose test function it is.
        force: make it again where there is one.
    """
    if model.test_function is not None and not force:
        return stock(model, force)
    answer = stock(model, force)
    made = model.test_function

    def test_function(state: Any, batches: Iterator[Any]) -> Any:
        model._jax_state = dict(zip(_PARTS, state, strict=True))
        return made(state, batches)

    model.test_function = test_function
    return answer
