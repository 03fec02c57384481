"""Computes and renders the plan of `--auto`: for the objects of a run, and for code with `--explain`.

Runs on: kernel, terminal and every rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import LINEAR, SQRT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WARMUP_EPOCHS = 3
WARMUP_PART = 4  # one in so many epochs, at most


def scaling_of(kind: str | None, *, is_sgd: bool) -> str:
    """Return how the learning rate grows with the batch: as requested, or as fits the optimizer.

    Linear for SGD: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.1. The square root for optimizers that
    divide by the size of the gradients: Krizhevsky 2014, "One weird trick", section 5, which keeps their variance.
    """
    return kind or (LINEAR if is_sgd else SQRT)


def factor_of(how: str, size: int) -> float:
    """Return the factor on the learning rate of one process, of `size` ranks."""
    return {LINEAR: float(size), SQRT: math.sqrt(size)}.get(how, 1.0)


def warmup_of(epochs: int) -> float:
    """Return over how many epochs the rate grows, where the program does not set it."""
    return min(float(WARMUP_EPOCHS), epochs / WARMUP_PART)


def part_of(batch: int, size: int) -> int:
    """Return how many samples of a batch rank 0 has, where the batch is divided among the ranks."""
    return -(-batch // size)


def check_batch(batch: int, size: int) -> None:
    """Raise if a batch that is split has fewer samples than there are ranks.

    Raises:
        InvalidInput: it has.
    """
    if batch < size:
        raise InvalidInput(
            "A batch must have at least one sample for each rank.",
            f"batches of {batch}, {size} ranks",
            "Pass a larger batch_size, or use fewer ranks.",
        )


def lines(size: int, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a plan's lines."""
    return [f"Distributed over {size} ranks:", *(f"  {name:<14} {text}" for name, text in rows)]


def optimizer(name: str) -> str:
    """Return the text of the row optimizer."""
    return f"{name} -> distributed"


def batch(own: int, whole: int | None) -> str:
    """Return the text of the row batch."""
    return f"{own:,} a rank, {whole:,} in all" if whole is not None else f"{own:,} a rank"


def steps(before: int, now: int) -> str:
    """Return the text of the row steps."""
    return f"{before:,} -> {now:,} an epoch"


def rate(number: float, factor: float, how: str) -> str:
    """Return the text of the row learning rate for a rate that is a number."""
    return f"{short(number)} -> {short(number * factor)} ({how})"


def schedule(name: str, factor: float, how: str) -> str:
    """Return the text of the row learning rate for a schedule."""
    return f"{name} times {short(factor)} ({how}), by the samples seen"


def warmup(epochs: str) -> str:
    """Return what follows in the row learning rate where it grows over some epochs; epochs "0" for none."""
    return "" if epochs == "0" else f" over {epochs} warm-up epochs"


def on_first_rank(names: Iterable[str]) -> str:
    """Return the text of the row on rank 0."""
    return ", ".join([*names, "progress bar and print"])


def loss(own: Iterable[str], *, has_sums: bool, whole_batches: bool) -> list[str]:
    """Return the texts of the row loss, about what is no mean that the code shows.

    Args:
        own: what of the program's own computes a loss.
        has_sums: a loss of `compile` is a sum.
        whole_batches: the ranks' batches are parts of one.
    """
    if whole_batches:
        return [f"that of {what} must be a mean over the batch: the ranks' mean is taken" for what in own]
    return ["where it is a sum over a batch, the mean of the ranks' sums is taken"] if has_sums or list(own) else []


def metric(name: str, *, adds_up: bool) -> str:
    """Return the text of the row metrics about a class of the program's own."""
    how = "what all ranks counted, added up" if adds_up else "the mean of the ranks', by samples"
    return f"{name} is {how}"


def joined(rows: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return rows of several texts, each once, as rows of one text; those that have any."""
    return {name: "; ".join(dict.fromkeys(texts)) for name, texts in rows.items() if list(texts)}


def short(number: float) -> str:
    """Return a number as the plan writes it."""
    return f"{number:.4g}"
