"""Says what the notes of all ranks mean: weights that differ, ranks that train alone, or on the same batches.

Runs on: every rank. Imports no torch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import RanksOutOfSync
from jupyter_ddl.protocol.rank_sets import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jupyter_ddl.torch_training.notes import Details, Note

_NAMED = 3
_CAUSE = {
    True: "Likely cause: weights were set or updated on some ranks only, after the model was wrapped or the optimizer "
    "made; or model.module was called in place of the wrapped model. Set them before, or on all ranks, and call the "
    "wrapped model. --on-drift warn only warns.",
    False: "Wrap the model with torch.nn.parallel.DistributedDataParallel, or run the cell with --auto; if a model on "
    "each rank is meant, pass --independent.",
}


@dataclass(frozen=True)
class Apart:
    """Ranks whose weights differ.

    Attributes:
        number: of the optimizer, in the order of first steps.
        optimizer: its class.
        ranks: rank -> a digest of its weights: of all that are compared.
        is_sure: they are to be the same, as DDP or `--auto` say.
    """

    number: int
    optimizer: str
    ranks: Mapping[int, str]
    is_sure: bool


@dataclass(frozen=True)
class Difference:
    """How they differ, by more than rounding.

    Attributes:
        apart: which ranks were compared.
        reference: those that hold what most do.
        others: those that differ from them.
        names: of the parameters that differ.
    """

    apart: Apart
    reference: tuple[int, ...]
    others: tuple[int, ...]
    names: tuple[str, ...]

    def text(self, step: int) -> str:
        """Return the rule, what was found, and the remedy."""
        differ = "differs" if len(self.others) == 1 else "differ"
        more = len(self.names) - _NAMED
        shown = ", ".join(self.names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return (
            f"All ranks must hold the same weights. Received: {named(self.others)} of {len(self.apart.ranks)} {differ} "
            f"from {named(self.reference)} after step {step} of the cell, in {shown} ({self.apart.optimizer}). "
            f"{_CAUSE[self.apart.is_sure]}"
        )

    def error(self, step: int) -> RanksOutOfSync:
        """Return the error to raise."""
        return RanksOutOfSync(self.text(step), self.others, self.names[0])


def apart(notes: Mapping[int, Note]) -> Iterator[Apart]:
    """Yield the ranks whose weights have other bits, by optimizer."""
    if len({note.step for note in notes.values()}) > 1:
        # Ranks that have taken different numbers of steps hold different weights.
        return
    for number in range(max((len(note.weights) for note in notes.values()), default=0)):
        groups: dict[tuple[str, tuple[int, ...] | None], dict[int, str]] = {}
        for rank, note in notes.items():
            if number < len(note.weights):
                mine = note.weights[number]
                if mine.together is None or rank in mine.together:
                    groups.setdefault((mine.layout, mine.together), {})[rank] = mine.bits
        for (_, together), bits in groups.items():
            if len(set(bits.values())) > 1:
                name = notes[next(iter(bits))].weights[number].optimizer
                yield Apart(number, name, bits, together is not None)


def difference(found: Apart, details: Callable[[int], Sequence[Details]]) -> Difference | None:
    """Return how ranks differ; None where it is by rounding, or the details are gone.

    Args:
        found: the ranks.
        details: returns a rank's.
    """
    counts = Counter(found.ranks.values())
    usual = max(counts, key=lambda bits: counts[bits])
    reference = tuple(rank for rank, bits in found.ranks.items() if bits == usual)
    theirs = details(reference[0])
    others: list[int] = []
    names: dict[str, None] = {}
    for rank, bits in found.ranks.items():
        mine = details(rank) if bits != usual else ()
        if found.number >= min(len(mine), len(theirs)):
            continue
        off = list(_off(mine[found.number], theirs[found.number]))
        if off:
            others.append(rank)
            names |= dict.fromkeys(off)
    return Difference(found, reference, tuple(others), tuple(names)) if others else None


def _off(mine: Details, theirs: Details) -> Iterator[str]:
    """Yield the names of parameters that differ by more than rounding."""
    for i, name in enumerate(theirs.names):
        by = max(abs(mine.sums[i] - theirs.sums[i]), abs(mine.norms[i] - theirs.norms[i]))
        both_nan = mine.norms[i] != mine.norms[i] and theirs.norms[i] != theirs.norms[i]
        # Not "above": one that is NaN differs too.
        if not both_nan and not by <= theirs.tolerances[i] * theirs.norms[i]:
            yield name


def on_same_batches(notes: Mapping[int, Note]) -> tuple[int, ...]:
    """Return the most ranks that have had the same first batches; none where these tell nothing, or no two did."""
    if any(note.is_sharded for note in notes.values()):
        # Ranks that hold one sample's parts of a computation have the same batches.
        return ()
    alike: dict[tuple[str, ...], list[int]] = {}
    for rank, note in notes.items():
        if note.batches:
            alike.setdefault(note.batches, []).append(rank)
    same = max(alike.values(), key=len, default=[])
    return tuple(same) if len(same) > 1 else ()


def same_batches_text(same: Sequence[int], ranks: int) -> str:
    """Return the warning of ranks that train on the same batches."""
    which = f"the {ranks} ranks train" if len(same) == ranks else f"{named(same)} of {ranks} train"
    return (
        f"WARNING: {which} on the same batches, so they learn no more than one of them would. Give each rank a part of "
        "its own: DataLoader(data, sampler=torch.utils.data.DistributedSampler(data)), or run the cell with --auto."
    )


def alone_text(ranks: int) -> str:
    """Return the warning of ranks that train with no exchange at all."""
    return f"WARNING: each of the {ranks} ranks trains a model of its own: no gradients are exchanged. {_CAUSE[False]}"
