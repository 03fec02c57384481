"""Makes checksums of an optimizer's parameters: one reading of their memory, and no copy.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import torch
import torch.distributed as dist
from torch.utils.weak import WeakIdKeyDictionary

from jupyter_ddl.torch_training.notes import Details, Weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Ranks that round differently drift apart by about the epsilon times the root of the number of steps: this leaves room
# for a million steps; of short floats, whose epsilon is large, for as much as it can.
_EPSILONS = 1000
# Of FSDP1's parameters. Source: torch 2.13, torch/distributed/fsdp/_flat_param.py
_MARKS_OF_PARTS = ("_is_flat_param", "_fsdp_flattened")
_MOST = 0.01


class Wrapped:
    """The parameters that DistributedDataParallel keeps the same on some ranks.

    Attributes:
        has_any: a model has been wrapped in the current cell.
    """

    def __init__(self) -> None:
        self.has_any = False
        # By the parameter itself: to compare two of them would compare their values. A model would keep its parameters.
        self._models: Any = WeakIdKeyDictionary()
        # Those that have made a step of their own rank's gradients: of local SGD, which averages weights later.
        self._local: WeakSet[Any] = WeakSet()

    def add(self, model: Any) -> None:
        """Note a model that has been wrapped."""
        self.has_any = True
        for parameter in model._module_parameters:
            self._models[parameter] = ref(model)

    def _model_of(self, parameter: torch.Tensor) -> Any:
        known = self._models.get(parameter)
        return None if known is None else known()

    def stepped(self, parameters: Iterable[torch.Tensor]) -> None:
        """Note that an optimizer has made a step: within `no_sync` it was of this rank's own gradients."""
        for model in {id(model): model for one in parameters if (model := self._model_of(one)) is not None}.values():
            if not model.require_backward_grad_sync:
                self._local.add(model)

    def ranks_of(self, parameter: torch.Tensor) -> tuple[int, ...] | None:
        """Return the ranks that must hold the same values; None where they need not.

        A communication hook of the program's may average over some ranks, or later; so may a program that makes steps
        within `no_sync`.
        """
        model = self._model_of(parameter)
        if model is None or model in self._local or model._comm_hooks or not dist.is_initialized():
            return None
        try:
            return tuple(dist.get_process_group_ranks(model.process_group))
        except (KeyError, ValueError, RuntimeError):
            # Its group has ended.
            return None

    def names(self, parameters: Sequence[torch.Tensor]) -> dict[int, str]:
        """Return the names of parameters in the wrapped models, by their id."""
        models = {id(model): model for one in parameters if (model := self._model_of(one)) is not None}
        return {id(one): name for model in models.values() for name, one in model.module.named_parameters()}


def is_part(parameter: torch.Tensor) -> bool:
    """Return whether a rank holds a part of a parameter: of FSDP or tensor parallelism."""
    return hasattr(parameter, "placements") or any(getattr(parameter, mark, False) for mark in _MARKS_OF_PARTS)


def checksums(optimizer: Any, wrapped: Wrapped, *, together: tuple[int, ...] | None) -> tuple[Weights, Details, bool]:
    """Return what tells an optimizer's parameters from another rank's, and whether some are parts.

    Args:
        optimizer: torch's; None where it is gone.
        wrapped: which parameters DDP keeps the same.
        together: the ranks that must hold the same values, where no model is wrapped.
    """
    given = [
        (one, name)
        for group in ([] if optimizer is None else optimizer.param_groups)
        for one, name in zip(group["params"], group.get("param_names") or [""] * len(group["params"]), strict=True)
    ]
    whole = [(one, name) for one, name in given if not is_part(one) and one.layout is torch.strided and not one.is_meta]
    kept = [(one, name) for one, name in whole if wrapped.ranks_of(one) is not None]
    if kept:
        together = wrapped.ranks_of(kept[0][0])
        whole = kept
    parameters = [one for one, _ in whole]
    bits, sums, norms = _figures(parameters)
    known = wrapped.names(parameters)
    names = [name or known.get(id(one)) or f"parameter {i} {list(one.shape)}" for i, (one, name) in enumerate(whole)]
    # By their names too, where a model has them: ranks may hold other parameters in an optimizer, as ZeRO's do.
    layout = [(known.get(id(one)), list(one.shape), str(one.dtype)) for one in parameters]
    kind = type(optimizer).__name__
    weights = Weights(kind, _digest(layout), _digest(bits), together)
    tolerances = [min(_MOST, _EPSILONS * torch.finfo(one.dtype).eps) if _floats(one) else 0.0 for one in parameters]
    return weights, Details(tuple(names), tuple(sums), tuple(norms), tuple(tolerances)), len(whole) < len(given)


@torch.no_grad()
def _figures(parameters: Sequence[torch.Tensor]) -> tuple[list[int], list[float], list[float]]:
    """Return each one's sum of bits, which rounding cannot blur, its sum and its norm."""
    bits: list[torch.Tensor] = []
    sums: list[torch.Tensor] = []
    for one in parameters:
        value = torch.view_as_real(one.detach()) if one.is_complex() else one.detach()
        bits.append(value.view(_BITS[value.element_size()]).sum())
        exact = torch.float64 if value.device.type != "mps" else torch.float32
        real = value if value.is_floating_point() else value.to(exact)
        sums += [real.sum(dtype=exact), torch.linalg.vector_norm(real, dtype=exact)]
    figures = _numbers(sums)
    return _numbers(bits), figures[::2], figures[1::2]


def _numbers(scalars: Sequence[torch.Tensor]) -> list[Any]:
    """Return the values of scalars, with one wait for each device."""
    found: list[Any] = [0] * len(scalars)
    for device in {one.device for one in scalars}:
        places = [i for i, one in enumerate(scalars) if one.device == device]
        for i, value in zip(places, torch.stack([scalars[i] for i in places]).tolist(), strict=True):
            found[i] = value
    return found


def _floats(parameter: torch.Tensor) -> bool:
    return bool(parameter.is_floating_point() or parameter.is_complex())


def _digest(value: Any) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()
