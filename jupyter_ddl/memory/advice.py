"""Holds what `advise` found: what a rank needs, what its device has, and which remedies would make it fit.

Runs on: every rank, or any process. Imports no framework.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import NOTHING, memory_size, percent

_HEADER = ("remedy", "saves", "then needs", "fits", "time", "")


@dataclass(frozen=True)
class Need:
    """What a rank needs in a training step, in bytes.

    Attributes:
        weights_bytes: all of the model's variables.
        gradients_bytes: one for each trained weight.
        optimizer_bytes: the optimizer's state, as Adam's two moments.
        activations_bytes: what the forward pass keeps for the backward pass, at this batch.
        process_bytes: what the process holds besides: libraries and data; 0 where the device is a GPU.

    Example:
        >>> need = jupyter_ddl.memory.advise(model, batch=32).need
        >>> need.weights_bytes + need.gradients_bytes + need.optimizer_bytes < need.all_bytes
        True
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    process_bytes: int = 0

    @property
    def all_bytes(self) -> int:
        """The sum."""
        of_model = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return of_model + self.activations_bytes + self.process_bytes


@dataclass(frozen=True)
class Remedy:
    """What would make a training need less.

    Attributes:
        name: of the remedy.
        option: the word of `--memory`, or "" where code has to say it.
        what: it does, or what the code is, as a clause.
        saved_bytes: of the need.
        needs_bytes: what is left.
        fits: into what the device has; together with the remedies above it, `together_bytes` does.
        together_bytes: what is left with this remedy and all above it.
        time: the factor on a step's time, 1.25 for a quarter more; None where it was not measured.

    Example:
        >>> first, *_ = jupyter_ddl.memory.advise(model, batch=32).remedies
        >>> first.saved_bytes >= 0
        True
    """

    name: str
    option: str
    what: str
    saved_bytes: int
    needs_bytes: int
    fits: bool
    together_bytes: int
    time: float | None = None


@dataclass(frozen=True)
class Advice:
    """The result of `advise`.

    Attributes:
        need: of one rank.
        batch: the samples of a step on a rank.
        ranks: that train together.
        device_bytes: what a rank may use.
        device: what that is, as a clause.
        remedies: in the order of their cost.
        notes: what was not counted, each a sentence.

    Example:
        >>> found = jupyter_ddl.memory.advise(model, batch=32)
        >>> found.fits, [remedy.option for remedy in found.remedies if remedy.fits]
    """

    need: Need
    batch: int
    ranks: int
    device_bytes: int
    device: str
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the training fits as it is."""
        return self.need.all_bytes <= self.device_bytes

    @property
    def option(self) -> str:
        """The words of `--memory` that suffice: the first that does alone, else the first ones that do together.

        "" where none is needed, or none suffices.
        """
        if self.fits:
            return ""
        words = [remedy for remedy in self.remedies if remedy.option]
        alone = next((remedy.option for remedy in words if remedy.fits), "")
        if alone:
            return alone
        for count, remedy in enumerate(words, start=1):
            if remedy.together_bytes <= self.device_bytes:
                return ",".join(each.option for each in words[:count])
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as numbers, texts and lists."""
        need = asdict(self.need) | {"all_bytes": self.need.all_bytes}
        return asdict(self) | {"need": need, "fits": self.fits, "option": self.option}

    def __str__(self) -> str:
        lines = [f"{line}" for line in aligned(self._need_rows(), right=(1,))]
        lines += ["", self._verdict()]
        if self.remedies:
            lines += ["", *aligned([_HEADER, *self._remedy_rows()], right=(1, 2))]
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes])

    def _repr_html_(self) -> str:
        """Return the tables for a notebook. Names come from the user's model, so all texts are escaped."""
        needs = _table(self._need_rows())
        remedies = _table([_HEADER, *self._remedy_rows()], has_header=True) if self.remedies else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{needs}<p>{escape(self._verdict())}</p>{remedies}{notes}"

    def _need_rows(self) -> list[tuple[str, str]]:
        need = self.need
        return [
            ("weights", memory_size(need.weights_bytes)),
            ("gradients", memory_size(need.gradients_bytes)),
            ("optimizer's state", memory_size(need.optimizer_bytes)),
            (f"activations of {self.batch:,} samples", memory_size(need.activations_bytes)),
            *([("libraries and data", memory_size(need.process_bytes))] if need.process_bytes else []),
            ("a rank needs", memory_size(need.all_bytes)),
            (self.device, memory_size(self.device_bytes)),
        ]

    def _remedy_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                remedy.name,
                memory_size(remedy.saved_bytes),
                memory_size(remedy.needs_bytes),
                "yes" if remedy.fits else "no",
                NOTHING if remedy.time is None else f"{_signed(remedy.time - 1)}",
                remedy.what,
            )
            for remedy in self.remedies
        ]

    def _verdict(self) -> str:
        if self.fits:
            return "It fits as it is."
        if self.option:
            return f"It does not fit. With --memory {self.option} it does."
        if any(remedy.fits for remedy in self.remedies if not remedy.option):
            return "It does not fit. Each remedy below that fits would do; the code says it."
        return "It does not fit, and no words of --memory suffice: use more ranks, a smaller batch or a smaller model."


def _signed(share: float) -> str:
    return f"{'+' if share >= 0 else ''}{percent(share)}"


def _table(rows: Any, *, has_header: bool = False) -> str:
    text = ""
    for number, row in enumerate(rows):
        tag = "th" if has_header and number == 0 else "td"
        text += "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
    return f"<table>{text}</table>"
