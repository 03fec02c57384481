"""Says what a rank needs to train a model, and which remedies would make it fit: `advise`.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.memory import device
from jupyter_ddl.memory.advice import Advice, Need, Remedy
from jupyter_ddl.memory.measured import Steps, Subject, kept_by, time_by, time_of

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = (2, 4, 8, 16, 32, 64)


def advise(
    model: Any,
    batch: Any,
    *,
    samples: int | None = None,
    loss: Callable[..., Any] | None = None,
    optimizer: Any = None,
    ranks: int | None = None,
    device_bytes: int | None = None,
) -> Advice:
    """Measure what a rank needs to train a model, beside what its device has, and what would make it need less.

    Steps of at most 8 samples are traced and run, without an update, and extrapolated to the batch. The model's
    weights, statistics and random states are as before afterwards.

    Args:
        model: a Keras model that is built, on any backend; or a torch.nn.Module.
        batch: the samples of a step on one rank: a number, for a Keras model with inputs; or arrays or tensors: x, or
            (x, y), whose rows are samples.
        samples: of a step, where `batch` is only an example of it; else the rows of `batch`.
        loss: of a module's outputs and the rest of the batch; a Keras model has its own.
        optimizer: of a module; a Keras model has its own. Without one Adam's state is counted.
        ranks: that train together; by default those of this job.
        device_bytes: what a rank may use; by default what its GPU or its host has.

    Raises:
        InvalidInput: the model is neither; it has no weights yet; the batch does not say the shapes.

    Example:
        >>> print(jupyter_ddl.memory.advise(model, batch=256, ranks=4))
    """
    count = samples if samples is not None else _rows_of(batch)
    if count < 1:
        raise InvalidInput("A batch must have samples.", f"{count}", "Pass a number above 0, or arrays with rows.")
    of = ranks if ranks is not None else device.world_size()
    subject = _subject(model, batch, loss, optimizer)
    process_bytes = 0
    own = device.capacity(of)
    if device_bytes is not None:
        own = device.Capacity(device_bytes, "a rank may use", own.is_gpu)
    if not own.is_gpu:
        process_bytes = max(0, psutil.Process().memory_info().rss - subject.weights_bytes)
    steps = kept_by(subject, count)
    need = Need(
        subject.weights_bytes,
        subject.gradients_bytes,
        subject.optimizer_bytes,
        round(steps.kept.at(count)),
        process_bytes,
    )
    keeps_freed = subject.is_of_torch and not own.is_gpu and _THRESHOLD not in os.environ
    notes = (*(() if steps.is_whole else (_LOOPS,)), *((_FREED,) if keeps_freed else ()))
    remedies = _Remedies(subject, steps, need, count, of, own.size_bytes, own.is_gpu).all()
    return Advice(need, count, of, own.size_bytes, own.what, remedies, notes)


_LOOPS = (
    "Not counted: what loops of TensorFlow's keep for their backward pass, as those of recurrent layers. The need is "
    "larger than it says."
)
# Source: mallopt(3): unless it is set, glibc raises it by itself to the size of blocks that are freed.
_THRESHOLD = "MALLOC_MMAP_THRESHOLD_"
_FREED = (
    "Not counted: blocks that PyTorch frees, and glibc keeps. Ranks that are started with --env "
    f"{_THRESHOLD}=1048576 give the large ones back."
)


@dataclass(frozen=True)
class _Remedies:
    subject: Subject
    steps: Steps
    need: Need
    samples: int
    ranks: int
    has_bytes: int
    is_gpu: bool

    def all(self) -> tuple[Remedy, ...]:
        """Return what saves memory, in the order of its cost; together with those before it."""
        found: list[Remedy] = []
        kept_part, other_saved = 1.0, 0
        for name, what, of_activations, of_others, time in self._candidates():
            saved = round(self.need.activations_bytes * of_activations) + of_others
            if saved <= 0:
                continue
            kept_part *= 1 - of_activations
            other_saved += of_others
            left = self.need.all_bytes - saved
            together = (
                self.need.all_bytes - other_saved - round(self.need.activations_bytes * (1 - max(0.0, kept_part)))
            )
            kind = name.partition("=")[0]
            option = "" if kind in self.subject.hints else name
            found.append(
                Remedy(
                    name,
                    option,
                    self.subject.hints.get(kind, what),
                    saved,
                    left,
                    left <= self.has_bytes,
                    together,
                    time,
                )
            )
        return tuple(found)

    def _candidates(self) -> list[tuple[str, str, float, int, float | None]]:
        """Return name, what it does, the part of the activations and the other bytes that it saves, and its time."""
        return [*self._accumulation(), *self._measured(), *self._shards(), *self._on_host()]

    def _shards(self) -> list[tuple[str, str, float, int, float | None]]:
        if self.ranks == 1:
            return []
        left = 1 - 1 / self.ranks
        need = self.need
        if self.subject.shards_all:
            sharded = need.weights_bytes + need.gradients_bytes + need.optimizer_bytes
            return [("shard-all", _WHAT["shard-all"], 0.0, int(left * sharded), None)]
        # A rank has its part of each weight beside the weight.
        saved = int(left * need.optimizer_bytes - need.gradients_bytes / self.ranks)
        return [("shard-optimizer", _WHAT["shard-optimizer"], 0.0, saved, None)]

    def _on_host(self) -> list[tuple[str, str, float, int, float | None]]:
        if not self.subject.is_of_torch or not self.is_gpu:
            return []
        return [("host", _WHAT["host"], 1.0, 0, None)]

    def _accumulation(self) -> list[tuple[str, str, float, int, float | None]]:
        parts = self._parts()
        if parts < 2:
            return []
        kept, time = self.steps.kept, time_by(self.subject, self.samples)
        whole = kept.at(self.samples)
        share = (whole - kept.at(-(-self.samples // parts))) / whole if whole else 0.0
        longer = (time.fixed * parts + time.each * self.samples) / max(time.at(self.samples), 1e-12)
        # The sum of the parts' gradients is there beside a part's own.
        what = f"each batch in {parts} parts, one update"
        return [(f"accumulate={parts}", what, share, -self.need.gradients_bytes, longer)]

    def _parts(self) -> int:
        """Return the least number of parts with which it fits; else as many as are of use."""
        possible = [parts for parts in _PARTS if parts <= self.samples]
        others = self.need.all_bytes - self.need.activations_bytes + self.need.gradients_bytes
        for parts in possible:
            if others + self.steps.kept.at(-(-self.samples // parts)) <= self.has_bytes:
                return parts
        return possible[-1] if possible else 1

    def _measured(self) -> list[tuple[str, str, float, int, float | None]]:
        found: list[tuple[str, str, float, int, float | None]] = []
        whole = self.steps.kept.at(self.samples)
        for option, change in self.subject.changes().items():
            before = time_of(self.subject, self.samples)
            with change:
                kept = kept_by(self.subject, self.samples).kept.at(self.samples)
                time = time_of(self.subject, self.samples)
            share = (whole - kept) / whole if whole else 0.0
            found.append((option, _WHAT[option], share, 0, time / before))
        return found


_WHAT = {
    "mixed": "computes in half precision",
    "remat": "computes activations again in the backward pass",
    "host": "keeps what the backward pass needs in host memory; not measured",
    "shard-optimizer": "each rank keeps its part of the optimizer's state",
    "shard-all": "each rank keeps its part of weights, gradients and state, with --auto --batch global",
}


def _rows_of(batch: Any) -> int:
    if isinstance(batch, int):
        return batch
    first = batch
    while isinstance(first, (tuple, list, dict)):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    if not getattr(first, "shape", ()):
        raise InvalidInput(
            "A batch is a number of samples, or arrays whose rows are samples.",
            f"{type(batch).__name__}",
            "Pass e.g. batch=32, or (x, y).",
        )
    return int(first.shape[0])


def _subject(model: Any, batch: Any, loss: Any, optimizer: Any) -> Subject:
    # Keras's models on PyTorch are modules too.
    keras, torch = sys.modules.get("keras"), sys.modules.get("torch")
    if keras is not None and isinstance(model, keras.Model):
        from jupyter_ddl.memory.keras_models import KerasSubject

        return KerasSubject(model, None if isinstance(batch, int) else batch)
    if torch is not None and isinstance(model, torch.nn.Module):
        from jupyter_ddl.memory.torch_modules import TorchSubject

        return TorchSubject(model, batch, loss, optimizer)
    raise InvalidInput(
        "advise takes a Keras model or a torch.nn.Module.",
        f"{type(model).__module__}.{type(model).__name__}",
        "Pass the model that is to be trained.",
    )
