"""Looks at a DataLoader's batches: how many samples they have, and what their bytes tell.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# Looked at of each part of a batch, from its beginning.
_BYTES = 2**16
_FEW = 4096


def samples_in(batch: Any) -> int:
    """Return how many samples a batch has: the first dimension of its first array, else the length of what it is.

    >>> samples_in([torch.zeros(8, 4), torch.zeros(8)])
    8
    """
    shape = _first_shape(batch)
    if shape is not None:
        return int(shape[0]) if shape else 1
    # Of a graph library's batch, say.
    for name in ("num_graphs", "batch_size"):
        count = getattr(batch, name, None)
        if isinstance(count, int):
            return count
    return len(batch) if isinstance(batch, Sequence) else 1


def _first_shape(batch: Any) -> Any:
    """Return the shape of the first array in a batch; None where there is none."""
    while isinstance(batch, list | tuple | Mapping) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
    return getattr(batch, "shape", None)


class Looked:
    """What some batches hold, as far as they are looked at.

    Attributes:
        digests: of each batch.
    """

    def __init__(self) -> None:
        self.digests: list[str] = []
        self._values: set[float] = set()
        self._rows: list[bytes] = []

    def look(self, batch: Any) -> None:
        """Look at one more."""
        digest = hashlib.blake2b(digest_size=8)
        rows: list[bytes] = []
        for part in _parts(batch):
            if not _is_plain(part):
                continue
            taken = _beginning(part.detach())
            data = taken.view(-1).view(torch.uint8).numpy().tobytes()
            digest.update(data)
            size = len(data) // len(taken)
            if not rows or size > len(rows[0]):
                # Of the part whose samples say most: of labels many are equal.
                rows = [data[at : at + size] for at in range(0, len(data), size)][:_FEW]
            if not taken.is_complex():
                self._values.update(taken.view(-1)[:_FEW].tolist())
        self._rows += rows
        self.digests.append(digest.hexdigest())

    def tell_apart(self, *, values: int, samples: int) -> bool:
        """Return whether other samples would have made other batches.

        Args:
            values: how many different values there must be at least.
            samples: how many samples, most of which differ.
        """
        return len(self._values) >= values and len(self._rows) >= samples and 2 * len(set(self._rows)) > len(self._rows)


def _parts(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from _parts(part)
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        for part in batch:
            yield from _parts(part)


def _beginning(part: torch.Tensor) -> torch.Tensor:
    """Return the first samples of a part of a batch, on the host: at least one."""
    part = part if part.dim() else part.view(1)
    of_a_sample = max(1, part[0].numel() * part.element_size())
    return part[: max(1, _BYTES // of_a_sample)].cpu().contiguous()


def _is_plain(part: torch.Tensor) -> bool:
    """Return whether a tensor's bytes can be read: it is not sparse, nested, quantized or without values."""
    is_other = part.is_nested or part.is_quantized or part.is_meta or part.layout is not torch.strided
    return not is_other and part.numel() > 0
