"""Distributes an optimizer of PyTorch's: `hvd.DistributedOptimizer` of `horovod.torch`.

Runs on: every rank. Collective: `step` and `synchronize` of what it returns.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api import arguments
from jupyter_ddl.horovod_api.environment_ranks import size
from jupyter_ddl.horovod_api.process_sets import Op, Plain, global_process_set
from jupyter_ddl.horovod_api.torch_gradients import Gradients, Reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_ddl.horovod_api.process_sets import ProcessSet


class _Distributed(torch.optim.Optimizer):  # type: ignore[misc]
    """What an optimizer of any class does beside: a base of the class of each that is distributed.

    Attributes:
        ranks_together: those that hold the same weights, which is checked; None where this one is alone.
    """

    ranks_together: tuple[int, ...] | None
    _gradients: Gradients
    _is_alone: bool
    _synchronizes = True
    _is_synchronized = False

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step with the gradients of all ranks."""
        if closure is None:
            if self._synchronizes:
                self.synchronize()
            elif not self._is_alone and not self._is_synchronized:
                raise InvalidInput(
                    "optimizer.skip_synchronize() is for a step with gradients that were synchronized before.",
                    "optimizer.step() in it without optimizer.synchronize()",
                    "Call optimizer.synchronize() first.",
                )
            self._is_synchronized = False
            return super().step()

        def of_all_ranks() -> Any:
            loss = closure()
            self.synchronize()
            self._is_synchronized = False
            return loss

        return super().step(of_all_ranks)

    def synchronize(self) -> None:
        """Wait until the gradients are those of all ranks; `step` then does not, unless `backward()` came between."""
        if not self._is_alone and (self._gradients.are_under_way or not self._is_synchronized):
            self._gradients.end()
        self._is_synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Have `step` take the gradients as they are, for the length of the block: after `synchronize`."""
        self._synchronizes = False
        try:
            yield
        finally:
            self._synchronizes = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients.

        Raises:
            InvalidInput: they are on their way to the other ranks.
        """
        if not self._is_alone and self._gradients.are_under_way:
            raise InvalidInput(
                "Gradients that are being reduced must stay until optimizer.step() or optimizer.synchronize().",
                "optimizer.zero_grad() after loss.backward()",
                "Call it before loss.backward() or after the step; optimizer.synchronize() stands for one left out.",
            )
        super().zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, whose gradients are reduced too."""
        super().add_param_group(param_group)
        if not self._is_alone:
            self._gradients.add(self.param_groups[-1]["params"])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state: what is under way is forgotten."""
        self._gradients.reset()
        self._is_synchronized = False
        super().load_state_dict(state_dict)

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse to be pickled or copied: what came of that would not reduce its gradients.

        Raises:
            TypeError: always.
        """
        raise TypeError("An hvd.DistributedOptimizer cannot be pickled or copied. Save its state_dict().")

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Have this number of backward passes add up before a step."""
        self._gradients.set_passes(arguments.backward_passes(passes))


def DistributedOptimizer(  # noqa: N802 (Horovod's)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Any = Plain,
    backward_passes_per_step: int = 1,
    op: Op = Op.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """Return an optimizer of the same class, with the same parameters and state, that steps with all ranks' gradients.

    Args:
        optimizer: any of PyTorch's but LBFGS. It must not be used any more.
        named_parameters: what they are called; checked, and of no further use.
        compression: of what travels.
        backward_passes_per_step: how many backward passes add up before a step; their sum is not divided by them.
        op: how the ranks' gradients are reduced.
        gradient_predivide_factor: divides them before they are summed, and multiplies the sum.
        num_groups: without effect, as `groups`: gradients travel in buckets of 25 MiB.
        groups: likewise.
        sparse_as_dense: send sparse gradients as dense ones; else they are refused.
        process_set: whose gradients count.

    Raises:
        InvalidInput: an argument is not as above.
    """
    del num_groups, groups
    op = arguments.operation(None, op)
    predivide = arguments.predivision(gradient_predivide_factor, op)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidInput(
            "LBFGS searches along its own rank's loss, and ranks would go apart.",
            "hvd.DistributedOptimizer(torch.optim.LBFGS(...))",
            "Use an optimizer that steps by the gradient alone.",
        )
    if named_parameters is not None:
        _check_names(optimizer, list(named_parameters))
    kind = type(optimizer)
    made: Any = object.__new__(type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__}))
    # A scheduler has put its own `step` there, which calls that of the class it knew.
    vars(made).update({name: value for name, value in vars(optimizer).items() if name != "step"})
    how = Reduction(compression, op, predivide, sparse_as_dense, process_set)
    made._gradients = Gradients(how, arguments.backward_passes(backward_passes_per_step))
    made._is_alone = size() == 1 or not process_set.included()
    made.ranks_together = None if made._is_alone else tuple(process_set.ranks or range(size()))
    if not made._is_alone:
        made._gradients.add([one for group in made.param_groups for one in group["params"]])
    return made


def _check_names(optimizer: torch.optim.Optimizer, named: list[Any]) -> None:
    if any(not isinstance(one, tuple) for one in named):
        raise InvalidInput(
            "named_parameters are pairs of a name and a parameter.",
            repr(type(named[0])),
            "Pass model.named_parameters().",
        )
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInput("named_parameters have a name each.", f"twice: {', '.join(twice)}", "Give each its own.")
    known = {id(parameter) for _, parameter in named}
    unnamed = sum(id(one) not in known for group in optimizer.param_groups for one in group["params"])
    if unnamed:
        raise InvalidInput(
            "named_parameters name all parameters of the optimizer.",
            f"{unnamed} without a name",
            "Pass those of all models that it trains, or leave named_parameters out.",
        )
