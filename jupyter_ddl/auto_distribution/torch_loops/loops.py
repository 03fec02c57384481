"""Distributes a training loop of PyTorch's in cells of `--auto`, and leaves it alone in others.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.weak import WeakIdKeyDictionary

from jupyter_ddl.auto_distribution.current_call import inside
from jupyter_ddl.auto_distribution.torch_loops import agreement, saving
from jupyter_ddl.auto_distribution.torch_loops.batches import Counted, DividedBatches
from jupyter_ddl.auto_distribution.torch_loops.gradients import Exchange
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import GLOBAL, NONE, AutoOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.memory.sharded_models import ShardedModels
    from jupyter_ddl.protocol.memory_options import MemoryOptions


def install() -> None:
    """Look at each DataLoader and optimizer from here on."""
    loops = rank_state.here().part(Loops)
    loops.install()
    loops.begin()


def begin() -> None:
    """Begin a cell that is to be distributed."""
    rank_state.here().part(Loops).begin()


class Loops:
    """What is distributed on this rank."""

    def __init__(self) -> None:
        self._group: Any = None
        self._weight = 1.0
        # By the optimizer, and by the parameter. The latter is not compared: that would compare its values.
        self._exchanges: WeakKeyDictionary[torch.optim.Optimizer, Exchange] = WeakKeyDictionary()
        self._exchanged: Any = WeakIdKeyDictionary()
        # Made when a cell asks for it.
        self._sharded: ShardedModels | None = None
        self._told: set[str] = set()

    def begin(self) -> None:
        """Begin a cell. A group that is there is used: only one that the cell itself makes is its program's."""
        self._told.clear()
        if dist.is_available() and dist.is_initialized():
            self._group = dist.group.WORLD

    def install(self) -> None:
        """Patch PyTorch, once."""
        patch(DataLoader, "__iter__", self._iterate, Layer.AUTO)
        patch(DataLoader, "__len__", self._length, Layer.AUTO)
        patch(torch.optim.Optimizer, "add_param_group", self._add_parameters, Layer.AUTO)
        patch(_NormBase, "__init__", self._note_normalisation, Layer.AUTO)
        patch(torch, "save", self._save, Layer.AUTO)
        register_optimizer_step_pre_hook(self._check_step)

    def _options(self) -> AutoOptions | None:
        """Return how the current cell is distributed; None where it is not, or distributes itself."""
        running = run_context.current()
        if running is None or running.options.auto is None or running.ranks == 1:
            return None
        if inside.get():
            # Keras on PyTorch, whose data are divided already.
            return None
        if dist.is_available() and dist.is_initialized() and dist.group.WORLD is not self._group:
            return None
        return running.options.auto

    def _is_on(self) -> bool:
        return self._options() is not None

    def _join(self) -> None:
        """Make the group of all ranks, where a release has ended the last one or there was none."""
        if not dist.is_initialized():
            dist.init_process_group()
            self._group = dist.group.WORLD

    def _iterate(self, stock: Callable[[Any], Iterator[Any]], loader: Any) -> Any:
        """Replace `DataLoader.__iter__`: a loop that trains gets this rank's part of each batch."""
        options = self._options()
        if options is None or not torch.is_grad_enabled():
            # Without gradients nothing is exchanged: each rank looks at all rows, and finds the same figures.
            return stock(loader)
        _check_loader(loader)
        self._join()
        is_global = options.batch == GLOBAL
        divided = DividedBatches(loader.batch_sampler, dist.get_rank(), dist.get_world_size(), is_global=is_global)
        with _batches_of(loader, divided):
            iterator = stock(loader)
        return Counted(iterator, divided, self._set_weight)

    def _save(self, stock: Callable[..., None], content: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        """Replace `torch.save`."""
        if self._is_on():
            saving.save(stock, content, f, *args, **kwargs)
        else:
            stock(content, f, *args, **kwargs)

    def _length(self, stock: Callable[[Any], int], loader: Any) -> int:
        options, length = self._options(), stock(loader)
        if options is None or options.batch == GLOBAL or not torch.is_grad_enabled():
            return length
        return -(-length // _size())

    def _set_weight(self, weight: float) -> None:
        self._weight = weight

    def _add_parameters(self, stock: Callable[..., None], optimizer: Any, group: dict[str, Any]) -> None:
        """Replace `Optimizer.add_param_group`, which makes a group of parameters of an optimizer known to it."""
        stock(optimizer, group)
        options = self._options()
        if options is None:
            return
        self._join()
        made = optimizer.param_groups[-1]
        whole = [one for one in made["params"] if not _is_sharded(one)]
        agreement.same_weights(whole)
        memory = run_context.options().memory
        if memory is not None and memory.shard_all:
            self._shard(optimizer, whole)
        else:
            self._exchange(optimizer, [one for one in whole if one.requires_grad])
        self._scale(optimizer, made, options, memory)

    def _exchange(self, optimizer: Any, parameters: list[torch.Tensor]) -> None:
        new = [one for one in parameters if one not in self._exchanged]
        exchange = self._exchanges.setdefault(optimizer, Exchange(self._is_on, self._weight_of_gradients))
        exchange.add(new)
        for parameter in new:
            self._exchanged[parameter] = exchange

    def _shard(self, optimizer: Any, parameters: list[torch.Tensor]) -> None:
        if self._sharded is None:
            from jupyter_ddl.memory.sharded_models import ShardedModels

            self._sharded = ShardedModels(self._is_on, lambda: self._weight, agreement.same_weights, self._join)
        self._sharded.add(optimizer, parameters)

    def _weight_of_gradients(self) -> float:
        # Where models are sharded the whole backward pass is weighted.
        return self._weight if self._sharded is None else 1.0

    def _scale(self, optimizer: Any, group: dict[str, Any], options: AutoOptions, memory: MemoryOptions | None) -> None:
        """Scale a group's learning rate for the larger batch, and print the plan."""
        size, name = _size(), type(optimizer).__name__
        rows = [("optimizer", plan_texts.optimizer(name))]
        if options.batch == GLOBAL:
            rows.append(("batch", "each is divided among the ranks"))
        else:
            rows.append(("batch", f"each rank takes one: {size} at a time, and as many fewer steps"))
            how = plan_texts.scaling_of(options.scale_lr, is_sgd=isinstance(optimizer, torch.optim.SGD))
            rate = group.get("lr")
            if how != NONE and isinstance(rate, float | int):
                factor = plan_texts.factor_of(how, size)
                group["lr"] = rate * factor
                rows.append(("learning rate", plan_texts.rate(float(rate), factor, how)))
        rows.append(
            ("gradients", "the mean of the ranks', in each backward pass: a loss must be a mean over the batch")
        )
        if memory is not None:
            rows.append(("memory", memory.plan(of_loop=True)))
        rows.append(("evaluation", "under torch.no_grad() every rank sees all rows"))
        self._tell("\n".join(plan_texts.lines(size, rows)), sys.stdout)

    def _note_normalisation(self, stock: Callable[..., None], layer: Any, *args: Any, **kwargs: Any) -> None:
        """Replace the batch normalisation's `__init__`: it is another one on several ranks."""
        stock(layer, *args, **kwargs)
        if self._is_on():
            self._tell(
                "NOTE: batch normalisation takes the mean of a rank's own rows, and keeps running means of its own. On "
                "GPUs torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) takes those of all ranks.",
                sys.stderr,
            )

    def _tell(self, text: str, stream: TextIO) -> None:
        """Print a text once in a cell, on rank 0."""
        if text not in self._told:
            self._told.add(text)
            if int(os.environ["RANK"]) == 0:
                print(text, file=stream, flush=True)

    def _check_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Refuse a step of parameters whose gradients are not exchanged: each rank would train another model."""
        if not self._is_on():
            return
        trained = [one for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        if self._sharded is not None:
            trained = [one for one in trained if not self._sharded.is_waiting(one)]
        if any(one not in self._exchanged and not _is_sharded(one) for one in trained):
            raise InvalidInput(
                "Under --auto the optimizer must be made in a cell with --auto, which exchanges its gradients.",
                f"a step of {type(optimizer).__name__} on parameters that were given to it without --auto",
                "Run the cell that makes the model and the optimizer with --auto, too.",
            )


def _check_loader(loader: Any) -> None:
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        raise InvalidInput(
            "--auto divides batches of rows that have an index.",
            "a DataLoader of an IterableDataset" if loader.batch_sampler is not None else "batch_size=None",
            "Use a dataset with __getitem__ and __len__; or leave --auto out, and divide the data by rank.",
        )


def _is_sharded(parameter: torch.Tensor) -> bool:
    """Return whether a parameter is a DTensor, without an import of those."""
    return hasattr(parameter, "placements")


def _size() -> int:
    running = run_context.current()
    return 1 if running is None else running.ranks


@contextmanager
def _batches_of(loader: Any, batches: DividedBatches) -> Iterator[None]:
    """Let an iterator that is made in the block draw from these batches. PyTorch refuses to set them by `=`."""
    stock = loader.batch_sampler
    vars(loader)["batch_sampler"] = batches
    try:
        yield
    finally:
        vars(loader)["batch_sampler"] = stock
