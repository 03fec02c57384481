"""Chooses the parts of a torch module whose weights are gathered together, one part at a time: FSDP2's units.

Runs on: every rank.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

# Parts with less of the model's weights than this are gathered with the rest: each costs a collective.
_LEAST_PART = 0.01
# PyTorch's own modules that call what they are made of. Others, as MultiheadAttention, read its weights.
_CALLERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)


def parts_of(model: nn.Module) -> list[nn.Module]:
    """Return the outermost modules that are called, have at most half of the weights, and share none with others.

    Example:
        >>> [type(part).__name__ for part in parts_of(nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9)))]
        ['Linear', 'Linear']
    """
    uses = _uses(model)
    return list(_below(model, sum(one.numel() for one in uses), uses))


def _uses(module: nn.Module) -> Counter[torch.Tensor]:
    """Return how often each parameter of a module is used in it, under names of its own."""
    return Counter(one for _, one in module.named_parameters(remove_duplicate=False))


def _below(parent: nn.Module, total: int, uses: Counter[torch.Tensor]) -> Iterator[nn.Module]:
    for child in parent.children():
        size = sum(one.numel() for one in child.parameters())
        if size < _LEAST_PART * total:
            continue
        inside: list[nn.Module] = []
        if not _is_whole(child) and (size > total / 2 or not _can_be_a_part(child, uses)):
            inside = list(_below(child, total, uses))
        if inside:
            yield from inside
        elif _can_be_a_part(child, uses):
            yield child


def _is_whole(module: nn.Module) -> bool:
    """Return whether a module of PyTorch's own may read the weights of what it is made of."""
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, _CALLERS)


def _can_be_a_part(module: nn.Module, uses: Counter[torch.Tensor]) -> bool:
    """Return whether a module is called, and has all its parameters for itself."""
    if type(module).forward is nn.Module.forward:
        return False
    return all(uses[one] == count for one, count in _uses(module).items())
