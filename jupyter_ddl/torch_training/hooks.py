"""Hooks into what a loop of PyTorch's calls: its DataLoader, `backward()`, its optimizer, its process groups.

Each hook calls torch's own first and returns what that returned: what trains is the same with and without.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.torch_training.batches import samples_in
from jupyter_ddl.torch_training.checks import Checks
from jupyter_ddl.torch_training.exchange import Exchange
from jupyter_ddl.torch_training.logged import Logged
from jupyter_ddl.torch_training.source import Source
from jupyter_ddl.torch_training.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.cells import Cell
    from jupyter_ddl.torch_training.checks import Groups

_now = time.perf_counter


class Hooks:
    """The hooks of one rank.

    Args:
        groups: its process groups.
        rank: its number; world_size that of all.
    """

    def __init__(self, groups: Groups, rank: int, world_size: int) -> None:
        self._logged = rank_state.here().part(Logged)
        self._logged.is_first_rank = rank == 0
        self._exchange = Exchange(self._backward_begins, lambda: self._steps.backward())
        self._steps = Steps(self._exchange.take)
        self._checks = Checks(groups, rank, world_size)
        # The cell's loop is shown, or checked.
        self._is_on = self._is_shown = False
        self._source: Source | None = None

    def install(self) -> None:
        """Hook into torch, once."""
        patch(dataloader._BaseDataLoaderIter, "__next__", self._next, Layer.RANK)
        patch(torch.autograd, "backward", self._exchange.backward, Layer.RANK)
        register_optimizer_step_post_hook(self._stepped)
        if dist.is_available():
            patch(dist.Work, "wait", self._exchange.wait, Layer.RANK)
            patch(torch.nn.parallel.DistributedDataParallel, "__init__", self._wrap, Layer.RANK)

    def begin(self, cell: Cell) -> None:
        """Begin a cell."""
        self._exchange.begin()
        self._is_shown = run_context.is_sampled()
        self._steps.begin(keeps=self._is_shown)
        self._checks.begin(cell)
        self._is_on = self._is_shown or self._checks.is_on
        self._source = None
        self._logged.take = None

    def conclude(self) -> None:
        """Look once more at what the ranks hold: the cell has ended well."""
        if self._is_on and self._checks.is_on:
            self._checks.conclude()

    def _next(self, stock: Callable[[Any], Any], iterator: Any) -> Any:
        """Replace `__next__` of a DataLoader's iterators: count what comes, and the wait for it."""
        if not self._is_on:
            return stock(iterator)
        asked_s = _now()
        try:
            batch = stock(iterator)
        except StopIteration:
            self._steps.ended(iterator)
            raise
        came_s = _now()
        if torch.is_grad_enabled():
            self._steps.batch(iterator, samples_in(batch), asked_s, came_s)
            if self._checks.wants_batches:
                self._checks.batch(batch)
        else:
            self._steps.interrupted()
        return batch

    def _backward_begins(self) -> None:
        if self._checks.is_due:
            self._checks.look()

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Count an optimizer's step, after it."""
        if not self._is_on or torch.compiler.is_compiling():
            return
        if self._checks.is_on:
            self._checks.optimizer(optimizer)
        if not self._steps.step(id(optimizer), _now()):
            return
        if self._source is None and self._is_shown:
            self._show(optimizer)
        if self._checks.is_on:
            self._checks.step()

    def _show(self, optimizer: Any) -> None:
        """Begin to report."""
        meter = rank_state.here().meter
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        name, count = type(optimizer).__name__, sum(one.numel() for one in parameters)
        self._source = Source(self._steps, meter.reports, f"{name}, {count:,} parameters")
        self._logged.take = self._source.log
        meter.attach(self._source)
        rate = optimizer.param_groups[0].get("lr")
        meter.parameters.log_fit(
            {
                "optimizer": name,
                "learning_rate": rate if isinstance(rate, float) else None,
                "batch_size": self._steps.largest or None,
                "model_parameters": count,
            }
        )

    def _wrap(self, stock: Callable[..., None], model: Any, *args: Any, **kwargs: Any) -> None:
        """Replace the `__init__` of DistributedDataParallel: note whose parameters are to be the same."""
        stock(model, *args, **kwargs)
        self._checks.wrapped.add(model)
