"""`fit` of a program that was written for one process, on several ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import horovod.tensorflow as hvd
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils

from jupyter_ddl.auto_options import GLOBAL
from jupyter_ddl.training.auto import callbacks, seeds
from jupyter_ddl.training.auto.data import divide_evaluation, divide_training
from jupyter_ddl.training.auto.parts.likeness import AlikeData
from jupyter_ddl.training.auto.parts.place import Place
from jupyter_ddl.training.auto.plan import Plan
from jupyter_ddl.training.auto.rate import ScaledRate, Warmup, scaling_of
from jupyter_ddl.training.auto.refusals import refuse_distributed, refuse_model
from jupyter_ddl.training.learning_rate import inner
from jupyter_ddl.training.optimizer import DistributedOptimizer, is_distributed

if TYPE_CHECKING:
    from jupyter_ddl.auto_options import AutoOptions
    from jupyter_ddl.training.auto.parts.adapter import Parts

# The optimizers that were distributed here, and not by the program.
_ours: WeakSet[Any] = WeakSet()
_rates: WeakKeyDictionary[Any, ScaledRate] = WeakKeyDictionary()


def fit(stock: Any, model: Any, arguments: dict[str, Any], options: AutoOptions) -> Any:
    """Train on this rank's part of the data, and return Keras's History, with what all ranks measured.

    Collective: every rank must call this.

    Args:
        stock: what to call.
        model: a compiled model.
        arguments: of `fit`, by name.
        options: how to distribute.

    Raises:
        InvalidInput: it cannot be distributed so.
    """
    place = Place(hvd.size(), hvd.rank())
    plan = Plan(place.size, seeds.ours())
    distribute(model)
    plan.optimizer(model.optimizer)
    _split_validation(arguments)
    parts = _divide(arguments, options, place, plan)
    _divide_validation(arguments, place)
    warmup = _warmup(model.optimizer, options, place, plan, epochs=arguments.get("epochs", 1))
    given = callbacks.listed(arguments.get("callbacks"))
    plan.on_first_rank(callbacks.first_rank_only(given))
    alike = [] if parts is None else [AlikeData(parts)]
    arguments["callbacks"] = callbacks.arranged(given, warmup, *alike)
    if place.rank == 0:
        plan.tell()
    else:
        arguments["verbose"] = 0
    return stock(model, **arguments)


def distribute(model: Any) -> None:
    """Distribute a model's optimizer, if that has not been done here.

    Raises:
        InvalidInput: the model cannot be distributed, or the program has done it.
    """
    refuse_model(model)
    model._assert_compile_called("fit")
    if model.optimizer not in _ours:
        if is_distributed(model.optimizer):
            refuse_distributed(model.optimizer)
        DistributedOptimizer(model.optimizer)
        _ours.add(model.optimizer)


def unscale(optimizer: Any) -> None:
    """Give an optimizer its own learning rate back, for steps that are as large as one process's."""
    if inner(optimizer) in _rates:
        _rates[inner(optimizer)].set(1.0)


def _divide(arguments: dict[str, Any], options: AutoOptions, place: Place, plan: Plan) -> Parts | None:
    """Put this rank's data in the place of the program's; return them where each rank takes its part of a batch."""
    steps = arguments.get("steps_per_epoch")
    data = divide_training(arguments, options, place, is_seeded=seeds.are_programs())
    plan.data(data.samples, data.how)
    plan.batch(data.own_batch, data.whole_batch)
    if steps is not None and data.steps is not None:
        plan.steps(steps, data.steps)
    arguments |= {"x": data.x, "steps_per_epoch": data.steps}
    if data.parts is not None:
        arguments |= {"y": None, "sample_weight": None, "class_weight": None, "batch_size": None, "shuffle": False}
    return data.parts


def _warmup(optimizer: Any, options: AutoOptions, place: Place, plan: Plan, epochs: int) -> Warmup:
    """Return what scales the learning rate, and warms it up where the optimizer has made no update yet."""
    scaling = scaling_of(optimizer, options, place.size, epochs)
    if int(inner(optimizer).iterations.numpy()) > 0:
        scaling = replace(scaling, warmup_epochs=0.0)  # it goes on with training, and is warm
    plan.rate(optimizer, scaling)
    rate = _rate_of(optimizer)
    rate.warmup_epochs.assign(scaling.warmup_epochs)
    rate.steps_in_one.assign(1 if options.batch == GLOBAL else place.size)
    return Warmup(rate, scaling, place.size)


def _rate_of(optimizer: Any) -> ScaledRate:
    own = inner(optimizer)
    if own not in _rates:
        _rates[own] = ScaledRate(own)
    return _rates[own]


def _split_validation(arguments: dict[str, Any]) -> None:
    """Take the validation's samples off, as Keras does, before the rest is divided."""
    split = arguments.pop("validation_split", 0.0)
    if not split or arguments.get("validation_data") is not None:
        return
    given = (arguments.get("x"), arguments.get("y"), arguments.get("sample_weight"))
    (x, y, weights), validation = array_slicing.train_validation_split(given, validation_split=split)
    arguments |= {"x": x, "y": y, "sample_weight": weights, "validation_data": validation}


def _divide_validation(arguments: dict[str, Any], place: Place) -> None:
    given = arguments.get("validation_data")
    if given is None:
        return
    x, y, weights = data_adapter_utils.unpack_x_y_sample_weight(given)
    batch = arguments.pop("validation_batch_size", None) or arguments.get("batch_size")
    of_evaluate = {
        "x": x,
        "y": y,
        "sample_weight": weights,
        "batch_size": batch,
        "steps": arguments.pop("validation_steps", None),
    }
    arguments["validation_data"] = divide_evaluation(of_evaluate, place)
