"""Finds what would make a pipeline faster, by changing it and timing each change.

Runs on: every rank; one may also run it alone.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines import speedups
from jupyter_ddl.pipelines.cache import ranks_of_this_host
from jupyter_ddl.pipelines.properties import batch_size_of
from jupyter_ddl.pipelines.stopwatch import training_step
from jupyter_ddl.pipelines.trials import LEAST_GAIN, Gain, Row, Trials
from jupyter_ddl.protocol.number_texts import number

# A pipeline this near to the model's own speed would gain nothing noticeable.
_AS_FAST = 0.9
# Shares of the time: the first measurement, each change alone, and some together.
_SLOTS = 12


@dataclass(frozen=True)
class Advice:
    """The result of `advise`: which changes help a pipeline.

    Attributes:
        rows: what helps, in the order in which to do it; then what does not.
        batches_per_s: of the pipeline as it is; with a model, of both together.
        model_batches_per_s: of the model alone, on a batch that is there; None without a model.
        dataset: the pipeline with all that helps.
        model_is_the_bottleneck: the pipeline feeds the model as fast as it can train: no change of it would help.

    Example:
        >>> advice = data.advise(tf.data.Dataset.range(64).batch(8), seconds=0.5)
        >>> to_do = [row.code for row in advice.rows if row.helps]
        >>> advice.batches_per_s > 0
        True
    """

    rows: tuple[Row, ...]
    batches_per_s: float
    model_batches_per_s: float | None
    dataset: Any
    model_is_the_bottleneck: bool = False

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def advise(ds: Any, model: Any = None, seconds: float = 20.0) -> Advice:
    """Measure a pipeline, alone or with a model, and what changes of it would gain; print and return the result.

    Each form of the pipeline runs for a while, by turns with the others. With a model, each runs into the model, which
    goes forward and backward, without exchange or update, and has its weights back at the end. What is slower, or
    faster by chance, is not advised. A map is moved behind `batch` only where its function gives the same for a batch.
    The first rank of each host prints; what is returned prints the same.

    Runs on: every rank, or one. Not a collective.

    Args:
        ds: this rank's part of a tf.data.Dataset, of batches as the model takes them.
        model: a compiled Keras model; None measures the pipeline alone.
        seconds: about how long all measurements take, without the time to start each form and to fill caches.

    Raises:
        InvalidInput: it is no dataset, it is empty, there is no time, or the model is not compiled.

    Example:
        >>> ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        >>> advice = data.advise(ds, model, seconds=0.5)
        >>> history = model.fit(advice.dataset, verbose=0)
    """
    if not isinstance(ds, tf.data.Dataset):
        raise InvalidInput("advise takes a tf.data.Dataset.", type(ds).__name__, "Pass what fit is given as x.")
    if not seconds > 0:
        raise InvalidInput("advise needs time to measure.", f"seconds={seconds}", "Pass e.g. seconds=20.")
    first = next(iter(ds.take(1)), None)
    if first is None:
        raise InvalidInput("advise measures batches.", "an empty dataset", "Pass one that has elements.")
    with ExitStack() as stack:
        step = None if model is None else stack.enter_context(training_step(model, first))
        advice = _advice(ds, first, step, seconds / _SLOTS)
    if ranks_of_this_host()[1]:
        print(advice)
    return advice


def _advice(ds: Any, first: Any, step: Any, slot_s: float) -> Advice:
    batch_size = batch_size_of(ds, first)
    trials = Trials(step, batch_size, slot_s)
    # The model alone is fed a batch that is there.
    alone = {} if step is None else {"model": tf.data.Dataset.from_tensors(first).cache()}
    rates = trials.rates({"as it is": ds, **alone})
    per_s = median(rates["as it is"])
    model_per_s = median(rates["model"]) if alone else None
    if alone and Gain.of(rates["as it is"], rates["model"]).times >= _AS_FAST:
        return Advice((), per_s, model_per_s, ds, model_is_the_bottleneck=True)
    rows, best = trials.take(ds, speedups.possible(ds), held=max(int(per_s * slot_s), 4) * batch_size)
    return Advice(tuple(rows), per_s, model_per_s, best)


def _lines(advice: Advice) -> list[str]:
    together = "with the model" if advice.model_batches_per_s is not None else "alone"
    rows = [("the pipeline as it is", advice.batches_per_s, together)]
    if advice.model_batches_per_s is not None:
        rows.append(("the model alone", advice.model_batches_per_s, ""))
    helpful = [row for row in advice.rows if row.helps]
    rows += [
        (f"{at}. {row.change}", row.batches_per_s, f"{row.gain:.2f} x   {row.code}")
        for at, row in enumerate(helpful, 1)
    ]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{'':{width}}  batches/s"]
    lines += [f"{name:{width}}  {number(per_s):>9}   {note}".rstrip() for name, per_s, note in rows]
    return [*lines, *_conclusion(advice, helpful)]


def _conclusion(advice: Advice, helpful: list[Row]) -> list[str]:
    if advice.model_is_the_bottleneck:
        return ["The model is the bottleneck: nothing in the pipeline would help."]
    others = {
        "Of help alone, but not besides": [row for row in advice.rows if row.helps_alone and not row.helps],
        "Faster in some rounds only": [row for row in advice.rows if not row.helps_alone and row.gain >= LEAST_GAIN],
        "No help": [row for row in advice.rows if not row.helps_alone and row.gain < LEAST_GAIN],
    }
    return [
        "Do these in this order." if helpful else "Nothing that was tried helps for certain.",
        *(
            f"{remark}: {', '.join(f'{row.change} ({row.gain:.2f} x)' for row in rows)}."
            for remark, rows in others.items()
            if rows
        ),
    ]
