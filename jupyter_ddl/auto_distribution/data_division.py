"""Divides the data of `fit`, of any kind, among the ranks, and describes how for the plan.

Runs on: every rank.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
from keras.src.trainers import data_adapters

from jupyter_ddl.auto_distribution.refusals import refuse_data
from jupyter_ddl.auto_distribution.shards.adapter import Parts, require_room
from jupyter_ddl.auto_distribution.shards.agreement_callback import (
    CompareAfterEpochs,
    CompareAfterFirstStep,
    CompareParts,
    CompareShares,
)
from jupyter_ddl.auto_distribution.shards.every_nth import EveryNth, SameContents
from jupyter_ddl.auto_distribution.shards.generators import Rounds
from jupyter_ddl.auto_distribution.shards.whole_batches import Shares
from jupyter_ddl.protocol.cell_options import GLOBAL
from jupyter_ddl.training.fit.first_batches import (
    KERAS_BATCH_SIZE,
    dataset_batch_size,
    first_part,
    is_dataset,
    is_loader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.auto_distribution.same_data import Part
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
    from jupyter_ddl.protocol.cell_options import AutoOptions


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Divided:
    """This rank's data.

    Attributes:
        x: what Keras is given for the data.
        how: how they were divided, for the plan; empty where the numbers suffice.
        samples: of all ranks in an epoch; None where not known.
        own_batch: the samples of a batch on this rank.
        whole_batch: on all ranks.
        steps: an epoch's, where the program counts them.
        holds_all: `x` includes the targets, the weights and the other data arguments of `fit`.
        splits_batches: the program makes the batches, and each rank has a part of each.
        checks: callbacks that check that the ranks have the same data.
        sources: the sources of the data that must be alike on all ranks and can be compared before the training.
        finish: must be called when the training has ended, also by an exception.
    """

    x: Any
    how: str = ""
    samples: int | None = None
    own_batch: int | None = None
    whole_batch: int | None = None
    steps: int | None = None
    holds_all: bool = False
    splits_batches: bool = False
    checks: tuple[Any, ...] = ()
    sources: tuple[Part, ...] = ()
    finish: Callable[[], None] = _nothing


def divide_training(arguments: dict[str, Any], options: AutoOptions, place: Place, *, is_seeded: bool) -> Divided:
    """Return this rank's data for `fit`.

    Args:
        arguments: of `fit`, by name.
        options: say whether the program's batch size is a rank's or that of all ranks.
        place: which part is this rank's.
        is_seeded: the program has set a random seed, which fixes the order in which one process would shuffle.

    Raises:
        InvalidInput: the data cannot be divided so.
    """
    refuse_data(arguments.get("x"))
    if options.batch != GLOBAL and not _are_arrays(arguments):
        divided = _in_whole_batches(arguments, place)
        if divided is not None:
            return divided
    return _in_parts(arguments, options, place, is_seeded=is_seeded)


def _in_whole_batches(arguments: dict[str, Any], place: Place) -> Divided | None:
    """Return whole batches of the program's for this rank; None for data that are no batches already."""
    data, steps = arguments.get("x"), arguments.get("steps_per_epoch")
    own_steps = None if steps is None else -(-steps // place.size)
    how = f"each rank takes every {_ordinal(place.size)} batch"
    if is_dataset(data):
        return _sharded(data, place, own_steps)
    if isinstance(data, keras.utils.PyDataset):
        part = EveryNth(data, place, class_weight=arguments.get("class_weight"), shuffle=arguments.get("shuffle", True))
        checks = (SameContents(part),)
        return Divided(part, how, steps=own_steps, holds_all=True, checks=checks, finish=part.finish)
    if is_loader(data):
        shares = Shares(data_adapters.get_data_adapter(data), place)
        whole = shares.batch_size and shares.batch_size * place.size
        checks = (CompareShares(shares),)
        return Divided(shares, how, None, shares.batch_size, whole, own_steps, holds_all=True, checks=checks)
    if isinstance(data, types.GeneratorType):
        rounds = Rounds(data, place)
        how = f"{how} of the generator"
        return Divided(rounds.batches(), how, steps=own_steps, checks=(CompareAfterEpochs(rounds),))
    return None


def _in_parts(arguments: dict[str, Any], options: AutoOptions, place: Place, *, is_seeded: bool) -> Divided:
    """Return this rank's part of each batch of all ranks, as `divide_training`."""
    data, steps = arguments.get("x"), arguments.get("steps_per_epoch")
    shares_batches = options.batch == GLOBAL
    batch = arguments.get("batch_size") or _batch_for(arguments, steps)
    if not shares_batches:
        batch *= place.size
        steps = None if steps is None else -(-steps // place.size)
    whole = data_adapters.get_data_adapter(
        data,
        arguments.get("y"),
        arguments.get("sample_weight"),
        batch_size=batch,
        steps_per_epoch=steps,
        # A dataset has its own order, and Keras warns if it is asked to shuffle one. "batch" is a separate mode.
        shuffle=not (is_dataset(data) or is_loader(data) or isinstance(data, types.GeneratorType))
        and arguments.get("shuffle", True),
        class_weight=arguments.get("class_weight"),
    )
    require_room(whole, place)
    parts = Parts(whole, place, steps, keeps_order=shares_batches and is_seeded)
    how = "" if parts.samples is not None else "each batch is split"
    checks = (CompareParts(parts),)
    return Divided(
        parts,
        how,
        parts.samples,
        parts.batch_size,
        whole.batch_size,
        steps,
        holds_all=True,
        splits_batches=parts.samples is None,
        checks=checks,
    )


def _sharded(data: Any, place: Place, steps: int | None) -> Divided:
    """Return this rank's shard of a dataset."""
    from jupyter_ddl.auto_distribution.shards.sources import Sources
    from jupyter_ddl.pipelines.shard import shard_with_note

    sources = Sources()
    sharded = shard_with_note(data, place.size, place.rank, sources.watch)
    own = dataset_batch_size(data)
    whole = own and own * place.size
    checks = (CompareAfterFirstStep(sources),)
    return Divided(sharded.dataset, sharded.how, None, own, whole, steps, checks=checks, sources=sources.parts)


def divide_evaluation(arguments: dict[str, Any], options: AutoOptions, place: Place, model: Any) -> Shares | EveryNth:
    """Return this rank's part of the data for `evaluate`: whole batches of one process.

    Args:
        arguments: of `evaluate`, by name.
        options: say whether the program's batch size is a rank's. If so, each rank makes only its own batches of a
            PyDataset, as in training, with its own random numbers; otherwise it makes all of them, as one process.
        place: which part is this rank's.
        model: that is evaluated. It takes `steps_per_execution` batches at once, and so up to a multiple of that.
    """
    data, steps = arguments.get("x"), arguments.get("steps")
    refuse_data(data)
    at_once = model.steps_per_execution
    taken = steps and -(-steps // at_once) * at_once
    if options.batch != GLOBAL and isinstance(data, keras.utils.PyDataset):
        return EveryNth(data, place, taken)
    whole = data_adapters.get_data_adapter(
        data,
        arguments.get("y"),
        arguments.get("sample_weight"),
        batch_size=arguments.get("batch_size"),
        steps_per_epoch=steps,
        shuffle=False,
    )
    return Shares(whole, place, taken)


def _are_arrays(arguments: dict[str, Any]) -> bool:
    given = (arguments.get("x"), arguments.get("y"), arguments.get("sample_weight"))
    return bool(data_adapters.array_data_adapter.can_convert_arrays(given))


def _batch_for(arguments: dict[str, Any], steps: int | None) -> int:
    """Return the batch size that Keras takes by default."""
    shape = getattr(first_part(arguments.get("x")), "shape", None)
    if steps and shape and _are_arrays(arguments):
        return -(-int(shape[0]) // int(steps))
    return KERAS_BATCH_SIZE


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")
