"""Has Keras's methods distribute what they do in a program that has imported `ddl`.

A program that has read its rank and the number of ranks divides its data itself, as the slides do: `fit` exchanges the
gradients, starts all ranks from rank 0's weights, and does nothing else. Any other is distributed as by `--auto`.
Methods that a program calls under `if ddl.rank() == 0` are none of all ranks: from the first `ddl.rank()` on only `fit`
and `train_on_batch` are distributed.

The methods are wrapped once, when Keras is imported, and act as the next layer's until `ddl` is.

Runs on: every rank.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_distribution.callbacks import listed
from jupyter_ddl.auto_distribution.current_call import asked_by, inside
from jupyter_ddl.auto_distribution.distributed_calls import is_ours
from jupyter_ddl.auto_distribution.plan import printed
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.ibm_ddl import loops
from jupyter_ddl.ibm_ddl.refusals import refuse_auto
from jupyter_ddl.ibm_ddl.uses import Uses
from jupyter_ddl.protocol.cell_options import NONE, AutoOptions
from jupyter_ddl.training import seeds
from jupyter_ddl.training.backends import hvd
from jupyter_ddl.training.callbacks import BroadcastGlobalVariablesCallback
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedOptimizer
from jupyter_ddl.training.optimizer.distribution import is_distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AS_AUTO = "import ddl, which distributes as --auto does"


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    patch(keras.Model, "fit", _fit, Layer.DDL)
    patch(keras.Model, "train_on_batch", _train_on_batch, Layer.DDL)
    for name in ("evaluate", "predict", "test_on_batch", "save", "save_weights", "export"):
        patch(keras.Model, name, _on_all_ranks, Layer.DDL)
    for owner, name in (
        (keras.saving, "save_model"),
        (keras.saving, "save_weights"),
        (keras.models, "save_model"),
    ):
        patch(owner, name, _on_all_ranks, Layer.DDL)
    loops.install()


def _on_all_ranks(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Distribute what all ranks call together, unless the program knows which rank it is on."""
    uses = _uses()
    if uses is None or uses.knows_its_rank:
        return stock(*args, **kwargs)
    with _as_auto(uses):
        return stock(*args, **kwargs)


def _fit(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    uses = _uses()
    if uses is None:
        return stock(model, *args, **kwargs)
    if not _divides(uses, model):
        with _as_auto(uses):
            return stock(model, *args, **kwargs)
    _exchange(model)
    call = inspect.signature(stock).bind(model, *args, **kwargs)
    given: Any = call.arguments.get("callbacks")
    if not any(isinstance(one, BroadcastGlobalVariablesCallback) for one in listed(given)):
        ours = BroadcastGlobalVariablesCallback(0)
        if isinstance(given, keras.callbacks.CallbackList):
            given.append(ours)
        else:
            call.arguments["callbacks"] = [*listed(given), ours]
    return stock(*call.args, **call.kwargs)


def _train_on_batch(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    uses = _uses()
    if uses is None:
        return stock(model, *args, **kwargs)
    if not _divides(uses, model):
        with _as_auto(uses):
            return stock(model, *args, **kwargs)
    if not is_distributed(model.optimizer):
        _exchange(model)
        if model.built:
            loops.start_together([*model.weights, *model.optimizer.variables])
    return stock(model, *args, **kwargs)


def _uses() -> Uses | None:
    """Return what the program asks of `ddl`, where that distributes this call; None where it does not."""
    uses = rank_state.here().part(Uses)
    return uses if uses.is_imported and not inside.get() and uses.distributes else None


def _divides(uses: Uses, model: Any) -> bool:
    """Return whether the program divides its data, and this model was not distributed before it could.

    Raises:
        InvalidInput: it does, in a cell that is to be distributed by `--auto`.
    """
    if not uses.divides or is_ours(model.optimizer):
        return False
    if run_context.options().auto is not None:
        refuse_auto()
    return True


def _exchange(model: Any) -> None:
    """Make a model's optimizer exchange its gradients, if `compile` has given it one."""
    if model.optimizer is not None and not is_distributed(model.optimizer):
        DistributedOptimizer(model.optimizer)
        printed().note(
            "import ddl: the program divides its data with ddl.rank() and ddl.size(), and "
            f"{model.optimizer.__class__.__name__} averages the gradients over the ranks."
        )


@contextmanager
def _as_auto(uses: Uses) -> Iterator[None]:
    """Have a call distributed as by `--auto`, for its length; a cell with `--auto` has that already.

    A program that has read the number of ranks scales its learning rate itself.
    """
    cells = rank_state.here().cells
    running = cells.current
    assert running is not None
    if running.options.auto is not None:
        yield
        return
    if not uses.draws_alike:
        # Cells since the import may have drawn other numbers on each rank.
        if not hvd.is_initialized():
            hvd.init()
        seeds.make_alike()
        uses.draws_alike = True
    auto = AutoOptions(scale_lr=NONE if uses.knows_the_size else None)
    token = asked_by.set(_AS_AUTO)
    cells.begin(replace(running, options=replace(running.options, auto=auto)))
    try:
        yield
    finally:
        cells.begin(running)
        asked_by.reset(token)
