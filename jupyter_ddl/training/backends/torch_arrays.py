"""Takes arrays of PyTorch apart, and joins them: `interface.Arrays`. Runs on: every rank."""

from __future__ import annotations

from typing import Any

import torch


def dense_parts(value: Any) -> list[Any] | None:
    """Return the dense tensors that a sparse tensor is made of; None for any other value."""
    if isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo:
        whole = value.coalesce()
        return [whole.indices(), whole.values()]
    return None


def gathered(tensor: Any, numbers: Any) -> Any:
    """Return some rows of a tensor."""
    return tensor[torch.as_tensor(numbers, device=tensor.device)]


def rows_of_sparse(part: Any, start: Any, stop: Any) -> Any:
    """Return rows of a sparse tensor; None for any other value."""
    if not isinstance(part, torch.Tensor) or part.layout is not torch.sparse_coo:
        return None
    return part.index_select(0, torch.arange(start, stop, device=part.device))
