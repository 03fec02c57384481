"""Runs `fit` of a program that was written for one process on several ranks.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils

from jupyter_ddl.auto_distribution import callbacks, differences, noise
from jupyter_ddl.auto_distribution.current_call import asked_by
from jupyter_ddl.auto_distribution.data_division import divide_evaluation, divide_training
from jupyter_ddl.auto_distribution.differences import LossesOfWholeBatches
from jupyter_ddl.auto_distribution.distributed_calls import distribute
from jupyter_ddl.auto_distribution.learning_rate_scaling import ScaledRate, Warmup, scaling_of
from jupyter_ddl.auto_distribution.plan import Plan
from jupyter_ddl.auto_distribution.same_data import parts_of, require_same, vocabularies_of
from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
from jupyter_ddl.auto_distribution.shards.texts import OF_PARTS
from jupyter_ddl.auto_distribution.step_settings import steps_of
from jupyter_ddl.engine import advice, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import GLOBAL
from jupyter_ddl.training import seeds
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.optimizer.learning_rate import inner

if TYPE_CHECKING:
    from jupyter_ddl.auto_distribution.data_division import Divided
    from jupyter_ddl.auto_distribution.same_data import Part
    from jupyter_ddl.auto_distribution.shards.every_nth import EveryNth
    from jupyter_ddl.auto_distribution.shards.whole_batches import Shares
    from jupyter_ddl.protocol.cell_options import AutoOptions

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
        InvalidInput: it cannot be distributed.
    """
    place = Place(hvd.size(), hvd.rank())
    plan = Plan(place.size, seeds.ours())
    plan.asked_by(asked_by.get())
    distribute(model)
    plan.optimizer(model.optimizer)
    _split_validation(arguments)
    require_same((*_arrays_of(arguments), *vocabularies_of(model)))
    validation = _divide_validation(arguments, options, place, model)
    data = _divide(arguments, options, place, plan)
    warmup = _warmup(model.optimizer, options, place, plan, epochs=arguments.get("epochs", 1))
    given = callbacks.listed(arguments.get("callbacks"))
    whole_batches = options.batch == GLOBAL
    plan.differs(differences.rows(model, whole_batches=whole_batches))
    if (memory := run_context.options().memory) is not None:
        plan.memory(memory.plan())
    plan.on_first_rank(callbacks.first_rank_only(given))
    checks = (*data.checks, LossesOfWholeBatches()) if whole_batches else data.checks
    arguments["callbacks"] = callbacks.arranged(given, warmup, *checks)
    if place.rank == 0:
        plan.tell()
    else:
        arguments["verbose"] = 0
    noise.begin_training()
    try:
        with steps_of(model, whole_batches=whole_batches):
            return stock(model, **arguments)
    except ops.errors_of_steps() as error:
        if data.splits_batches and not isinstance(error, InvalidInput):
            advice.add(error, OF_PARTS)
        raise
    finally:
        # Also after an exception: an update by hand, with its own batch, has the rate that `learning_rate` shows.
        unscale(model.optimizer)
        if validation is not None:
            validation.finish()
        data.finish()


def unscale(optimizer: Any) -> None:
    """Give an optimizer its own learning rate back, for steps that are as large as one process's."""
    if inner(optimizer) in _rates:
        _rates[inner(optimizer)].reset()


def _divide(arguments: dict[str, Any], options: AutoOptions, place: Place, plan: Plan) -> Divided:
    """Replace the program's data by this rank's, and return them."""
    steps = arguments.get("steps_per_epoch")
    data = divide_training(arguments, options, place, is_seeded=seeds.are_programs())
    require_same(data.sources, "what a dataset is made of")
    plan.data(data.samples, data.how)
    plan.batch(data.own_batch, data.whole_batch)
    if steps is not None and data.steps is not None:
        plan.steps(steps, data.steps)
    arguments |= {"x": data.x, "steps_per_epoch": data.steps}
    if data.holds_all:
        arguments |= {"y": None, "sample_weight": None, "class_weight": None, "batch_size": None, "shuffle": False}
    return data


def _warmup(optimizer: Any, options: AutoOptions, place: Place, plan: Plan, epochs: int) -> Warmup:
    """Return what scales the learning rate, and warms it up where the optimizer has made no update yet."""
    scaling = scaling_of(optimizer, options, place.size, epochs)
    if int(inner(optimizer).iterations.numpy()) > 0:
        scaling = replace(scaling, warmup_epochs=0.0)  # it continues a training, and is warm
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
    """Split off the validation's samples, as Keras does, before the rest is divided."""
    split = arguments.pop("validation_split", 0.0)
    if not split or arguments.get("validation_data") is not None:
        return
    given = (arguments.get("x"), arguments.get("y"), arguments.get("sample_weight"))
    (x, y, weights), validation = array_slicing.train_validation_split(given, validation_split=split)
    arguments |= {"x": x, "y": y, "sample_weight": weights, "validation_data": validation}


def _arrays_of(arguments: dict[str, Any]) -> tuple[Part, ...]:
    """Return the parts by which the ranks compare arrays that must be alike on all of them."""
    names = ("x", "y", "sample_weight", "validation_data")
    return parts_of(**{name: arguments.get(name) for name in names})


def _divide_validation(
    arguments: dict[str, Any], options: AutoOptions, place: Place, model: Any
) -> Shares | EveryNth | None:
    """Replace the validation's data by this rank's part, and return it."""
    given = arguments.get("validation_data")
    if given is None:
        return None
    x, y, weights = data_adapter_utils.unpack_x_y_sample_weight(given)
    batch = arguments.pop("validation_batch_size", None) or arguments.get("batch_size")
    of_evaluate = {
        "x": x,
        "y": y,
        "sample_weight": weights,
        "batch_size": batch,
        "steps": arguments.pop("validation_steps", None),
    }
    arguments["validation_data"] = part = divide_evaluation(of_evaluate, options, place, model)
    return part
