"""Writes the plan: what `--auto` will do to the code, as far as the code shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.explain import differences
from jupyter_ddl.explain.data_kinds import Kind, batch_of
from jupyter_ddl.explain.names import RANK_0_CALLBACKS
from jupyter_ddl.modernise.names import code_of
from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.explain.calls import MethodCall
    from jupyter_ddl.explain.settings import Settings

_KERAS_BATCH_SIZE = 32
_WHEN_IT_RUNS = "known when it runs"


def lines(settings: Settings) -> list[str]:
    """Return the plan's lines."""
    rows = [(name, text) for name, text in _rows(settings) if text]
    # Several calls may be alike.
    return plan_texts.lines(settings.world_size, dict.fromkeys(rows))


def _rows(settings: Settings) -> Iterator[tuple[str, str]]:
    reading = settings.reading
    for call in reading.compiles:
        yield "optimizer", plan_texts.optimizer(settings.optimizer_of(call))
    for call in reading.fits:
        yield "data", _data(settings, call)
        yield "batch", _batch(settings, call)
        yield "steps", _steps(settings, call)
    for call in reading.compiles:
        for fit in reading.fits:
            yield "learning rate", _rate(settings, call, fit)
    names = [name for name in RANK_0_CALLBACKS if name in reading.code]
    yield from differences.rows(settings).items()
    yield "on rank 0", plan_texts.on_first_rank(names)
    if not reading.sets_seed:
        yield "random seed", "one for all ranks, as the program sets none"


def _data(settings: Settings, fit: MethodCall) -> str:
    names = ", ".join(text for text in (fit.text("x"), fit.text("y")) if text is not None)
    kind, size = settings.kind(fit), settings.world_size
    if settings.shares_batches or kind is Kind.ARRAYS:
        how = "each rank takes its part of each batch"
    elif kind is Kind.DATASET:
        how = f"each rank reads 1 of {size} shards, of files or of elements"
    else:
        how = f"each rank takes 1 of {size} batches"
    return f"{names}: {how}; how many samples is {_WHEN_IT_RUNS}"


def _batch(settings: Settings, fit: MethodCall) -> str:
    size, text = settings.world_size, fit.text("batch_size")
    given, data = fit.value("batch_size"), fit.value("x")
    if settings.kind(fit) is Kind.ARRAYS:
        known = _KERAS_BATCH_SIZE if given is None and fit.text("steps_per_epoch") is None else None
        number = known or settings.reading.constant(given)
    else:
        number = None if data is None else batch_of(settings.reading, data)
    if not isinstance(number, int):
        whose = "of all ranks together" if settings.shares_batches else "of each rank"
        return f"{text or 'its size'} ({_WHEN_IT_RUNS}) is that {whose}"
    if settings.shares_batches:
        plan_texts.check_batch(number, size)
        return plan_texts.batch(plan_texts.part_of(number, size), number)
    return plan_texts.batch(number, number * size)


def _steps(settings: Settings, fit: MethodCall) -> str:
    given, text = fit.value("steps_per_epoch"), fit.text("steps_per_epoch")
    if given is None or settings.shares_batches:
        return ""
    number, size = settings.reading.constant(given), settings.world_size
    if isinstance(number, int):
        return plan_texts.steps(number, plan_texts.part_of(number, size)) if size > 1 and number > 1 else ""
    return f"{text} -> a {size}th of them an epoch" if size > 2 else f"{text} -> half of them an epoch"


def _rate(settings: Settings, call: MethodCall, fit: MethodCall) -> str:
    how = settings.scaling(settings.optimizer_of(call))
    if how == NONE:
        return ""
    factor = plan_texts.factor_of(how, settings.world_size)
    return _rate_now(settings, settings.rate_of(call), factor, how) + _warmup(settings, fit)


def _rate_now(settings: Settings, rate: cst.BaseExpression | str | None, factor: float, how: str) -> str:
    if rate is None:
        return f"the optimizer's own ({_WHEN_IT_RUNS}) times {factor:.4g} ({how})"
    if isinstance(rate, cst.BaseExpression) and (schedule := settings.schedule_of(rate)):
        return plan_texts.schedule(schedule, factor, how)
    number = rate if isinstance(rate, str) else settings.reading.constant(rate)
    if number is None:
        assert isinstance(rate, cst.BaseExpression)
        return f"{code_of(rate)} ({_WHEN_IT_RUNS}) times {factor:.4g} ({how})"
    return plan_texts.rate(float(number), factor, how)


def _warmup(settings: Settings, fit: MethodCall) -> str:
    epochs = settings.warmup_epochs(fit)
    text = plan_texts.warmup(epochs)
    return text + (" of the first fit" if text and settings.fits_again else "")
