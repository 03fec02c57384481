"""Reduces the gradients of parameters over the ranks, while `backward()` computes others.

They travel in buckets, of which each begins when its gradients are there and the one before it has begun: in the order
of the parameters, from the last on, which is the same on all ranks. So a rank whose loss does not reach a parameter
sends zeros for it, and no rank waits in vain.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.torch_process_sets import group_of, made_group_of
from jupyter_ddl.horovod_api.torch_reductions import begin_allreduce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.horovod_api.process_sets import Op, ProcessSet
    from jupyter_ddl.horovod_api.torch_reductions import Handle

# As DDP's, the first small so that it begins early. Source: torch 2.13, torch/nn/parallel/distributed.py,
# bucket_cap_mb, and torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes
BUCKET_BYTES, FIRST_BYTES = 25 << 20, 1 << 20


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced, by the names and meanings of Horovod's arguments."""

    compression: Any
    op: Op
    gradient_predivide_factor: float
    sparse_as_dense: bool
    process_set: ProcessSet


class _Bucket:
    """Gradients that travel together.

    Args:
        parameters: theirs, of one device and dtype.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = tuple(parameters)
        self.forget()

    def forget(self) -> None:
        """Begin a step: no gradient is there."""
        self.missing = len(self.parameters)
        self._handle: Handle | None = None

    def begin(self, how: Reduction) -> None:
        """Begin to reduce them."""
        for parameter in self.parameters:
            if parameter.grad is None:
                # Another rank may have one.
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([_dense(one.grad).reshape(-1) for one in self.parameters if one.grad is not None])
        divided = how.gradient_predivide_factor
        self._handle = begin_allreduce(
            flat, how.op, 1.0 / divided, divided, how.compression, how.process_set, may_overwrite=True
        )

    def end(self) -> None:
        """Put what they were reduced to in their place."""
        if self._handle is None:
            return
        parts = self._handle.wait().split([one.numel() for one in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            is_sparse = parameter.grad is not None and parameter.grad.is_sparse
            # A part of the bucket as it is, and no copy.
            parameter.grad = part.view_as(parameter).to_sparse() if is_sparse else part.view_as(parameter)


class _Hooks:
    """By the parameter, what its backward pass calls: of the optimizer that was distributed last.

    A cell that makes the optimizer of a model may run again.
    """

    def __init__(self) -> None:
        # A parameter is not compared: that would compare its values.
        self._of: Any = WeakIdKeyDictionary()

    def put(self, parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> None:
        """Have a parameter's backward pass call this one, and no earlier one."""
        if parameter in self._of:
            self._of[parameter].remove()
        self._of[parameter] = parameter.register_post_accumulate_grad_hook(hook)


class Gradients:
    """The gradients of one optimizer's parameters.

    Args:
        how: they are reduced.
        passes: how many backward passes add up before they are.
    """

    def __init__(self, how: Reduction, passes: int) -> None:
        self._how = how
        self._passes = passes
        self._buckets: list[_Bucket] = []
        # Parameter, by its identity -> its bucket, and how many passes are left of it.
        self._bucket_of: dict[int, _Bucket] = {}
        self._left: dict[int, int] = {}
        self._begun = 0
        # Since the last step a backward pass has come; the group in which its gradients are reduced.
        self._has_come = False
        self._group: Any = None

    def add(self, parameters: Sequence[torch.Tensor]) -> None:
        """Reduce those of more parameters, in the order of the optimizer, which is the same on all ranks."""
        kinds: dict[Any, list[torch.Tensor]] = {}
        for parameter in reversed([one for one in parameters if one.requires_grad]):
            kind = parameter.device, parameter.dtype
            bucket = kinds.setdefault(kind, [])
            bucket.append(parameter)
            if sum(one.nbytes for one in bucket) >= (BUCKET_BYTES if self._buckets else FIRST_BYTES):
                self._buckets.append(_Bucket(kinds.pop(kind)))
            rank_state.here().part(_Hooks).put(parameter, self._accumulated)
        self._buckets += [_Bucket(bucket) for bucket in kinds.values()]
        self._bucket_of = {id(one): bucket for bucket in self._buckets for one in bucket.parameters}
        self.reset()

    @property
    def are_under_way(self) -> bool:
        """Whether a backward pass has come since `end`, and no release has ended what it began."""
        return self._has_come and self._group is made_group_of(self._how.process_set)

    def set_passes(self, passes: int) -> None:
        """Have this number of backward passes add up from here on."""
        self._passes = passes
        self.reset()

    def reset(self) -> None:
        """Begin a step: none of its backward passes has come."""
        self._begun, self._has_come = 0, False
        self._left = dict.fromkeys(self._bucket_of, self._passes)
        for bucket in self._buckets:
            bucket.forget()

    def end(self) -> None:
        """Reduce what no backward pass has reached, and wait for all. Collective."""
        if not self.are_under_way:
            self.reset()
        self._begin(len(self._buckets))
        for bucket in self._buckets:
            bucket.end()
        self.reset()

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if not self.are_under_way:
            self.reset()
            self._has_come, self._group = True, group_of(self._how.process_set)
        gradient, left = parameter.grad, self._left[id(parameter)]
        if gradient is not None and gradient.is_sparse and not self._how.sparse_as_dense:
            raise InvalidInput(
                "hvd.DistributedOptimizer reduces dense gradients.",
                f"a sparse one of a parameter of shape {list(parameter.shape)}",
                "Pass sparse_as_dense=True, or make the layer with sparse=False.",
            )
        if left == 0:
            raise InvalidInput(
                "Each step of an hvd.DistributedOptimizer has backward_passes_per_step backward passes.",
                f"one more than {self._passes}",
                "Call optimizer.step() after each, or pass backward_passes_per_step=N.",
            )
        self._left[id(parameter)] = left - 1
        if left == 1:
            self._bucket_of[id(parameter)].missing -= 1
            ready = next((at for at, one in enumerate(self._buckets) if one.missing), len(self._buckets))
            self._begin(ready)

    def _begin(self, until: int) -> None:
        for bucket in self._buckets[self._begun : until]:
            bucket.begin(self._how)
        self._begun = max(self._begun, until)


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.to_dense() if gradient.is_sparse else gradient
