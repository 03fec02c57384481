"""Shards the models of a loop of PyTorch's over the ranks, with no line of it changed: `--memory shard-all`, by FSDP2.

A model is sharded when it is first called: by then it has its layers, its device and its optimizer. Its parameters
become DTensors, of which each rank holds a part, and the optimizer gets these in place of those that it was made with.
What the program saves and loads stays whole: `state_dict` gathers it, and `load_state_dict` divides it.

Source: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", arXiv:2304.11277.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, Patch, patch
from jupyter_ddl.memory.parts_of_models import parts_of
from jupyter_ddl.memory.saved_parts import parts_are_saved
from jupyter_ddl.memory.unused import Trained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch.distributed.device_mesh import DeviceMesh


# Of gradients that are 1 on each rank, with room for rounding.
_MEAN = (0.99, 1.01)


class ShardedModels:
    """The models that are sharded on this rank, and the parameters whose model has not been called yet.

    Args:
        is_on: returns whether the current cell is distributed.
        weight: returns how much this rank's rows of the current batch count: 1 where all ranks have as many.
        agree: gives tensors the values of rank 0.
        join: makes the group of all ranks, where a release has ended the last one.
    """

    def __init__(
        self,
        is_on: Callable[[], bool],
        weight: Callable[[], float],
        agree: Callable[[Iterable[torch.Tensor]], None],
        join: Callable[[], None],
    ) -> None:
        self._is_on = is_on
        self._weight = weight
        self._agree = agree
        self._join = join
        self._optimizers: WeakSet[torch.optim.Optimizer] = WeakSet()
        # By the parameter itself: to compare two of them would compare their values.
        self._waiting: Any = WeakIdKeyDictionary()
        self._calls: Patch | None = None

    def add(self, optimizer: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> None:
        """Shard the models of an optimizer's parameters when they are called."""
        for parameter in parameters:
            if not is_sharded(parameter):
                self._waiting[parameter] = True
        if optimizer not in self._optimizers:
            self._optimizers.add(optimizer)
            optimizer.register_state_dict_post_hook(self._gathered_state)
            optimizer.register_load_state_dict_pre_hook(_divided_state)
        if self._calls is None and self._waiting:
            self._calls = patch(torch.nn.Module, "__call__", self._call, Layer.MEMORY)
        patch(torch.autograd, "backward", self._backward, Layer.MEMORY)

    def is_waiting(self, parameter: torch.Tensor) -> bool:
        """Return whether a parameter is to be sharded, and no module with it was called.

        Raises:
            InvalidInput: it has a gradient all the same. Of zeros it may have one: torch.distributed.checkpoint steps
                with those, to have an optimizer make its state.
        """
        if parameter not in self._waiting:
            return False
        if parameter.grad is not None and parameter.grad.any():
            raise InvalidInput(
                "--memory shard-all shards the parameters of modules that are called.",
                f"a step on a parameter {list(parameter.shape)} whose module was not called, but read",
                "Call the module that has it, model(x); or leave shard-all out.",
            )
        return True

    def _call(self, stock: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace `Module.__call__` as long as there are parameters that wait."""
        if self._is_on() and any(one in self._waiting for one in module.parameters()):
            # An evaluation may come first; what it makes could not be trained.
            with torch.inference_mode(mode=False), torch.enable_grad():
                self._shard(getattr(module, "_orig_mod", module))
        return stock(module, *args, **kwargs)

    def _shard(self, model: torch.nn.Module) -> None:
        rank_state.here().part(Trained).is_done = True
        before = dict(model.named_parameters(remove_duplicate=False))
        # Of the others rank 0's values were taken when their optimizer was made.
        others = [one for one in before.values() if one not in self._waiting and not is_sharded(one)]
        self._agree([*others, *model.buffers()])
        mesh = _mesh_of(model)
        _check_mean(mesh)
        for part in (*parts_of(model), model):
            # Also the outermost, which FSDP2 would leave whole: parameters are parts whenever the program reads them.
            fully_shard(part, mesh=mesh, reshard_after_forward=True)
        after = dict(model.named_parameters(remove_duplicate=False))
        replaced = {id(one): after[name] for name, one in before.items()}
        for optimizer in self._optimizers:
            _replace(optimizer, replaced)
        for one in before.values():
            self._waiting.pop(one, None)
        _Calls(model, dist.group.WORLD)
        # torch marks a hook, which a method does not take.
        model.register_state_dict_post_hook(lambda *hooked: self._gather_weights(*hooked))
        model.register_load_state_dict_pre_hook(_divided_weights)
        if not self._waiting and self._calls is not None:
            self._calls.undo()
            self._calls = None

    def _backward(
        self, stock: Callable[..., Any], tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Replace `torch.autograd.backward`: FSDP takes the mean of the ranks, and these count by their rows."""
        weight = self._weight() if self._is_on() else 1.0
        if weight != 1.0:
            tensors = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
            given = (grad_tensors,) if isinstance(grad_tensors, torch.Tensor) else grad_tensors or [None] * len(tensors)
            grad_tensors = [
                (torch.ones_like(one) if gradient is None and one.numel() == 1 else gradient) * weight
                for one, gradient in zip(tensors, given, strict=True)
            ]
        stock(tensors, grad_tensors, *args, **kwargs)

    def _gather_weights(self, _model: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
        for name, value in state.items():
            if name.startswith(prefix):
                state[name] = self._saved(value)

    def _gathered_state(self, _optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": pytree.tree_map(self._saved, state["state"])}

    def _saved(self, value: Any) -> Any:
        """Return a tensor with the parts of all ranks, in host memory: a GPU may not have room for it. Collective."""
        if parts_are_saved() or not isinstance(value, DTensor):
            return value
        # A mesh names its group, and a new group of all ranks has the name of the last one.
        self._join()
        return value.full_tensor().cpu()


def is_sharded(parameter: torch.Tensor) -> bool:
    """Return whether this rank holds a part of a parameter."""
    return isinstance(parameter, DTensor)


def _mesh_of(model: torch.nn.Module) -> DeviceMesh:
    """Return the mesh of all ranks on the device where a model is.

    Raises:
        InvalidInput: the model is on several.
    """
    kinds = {one.device.type for one in model.parameters()}
    if len(kinds) > 1:
        raise InvalidInput(
            "--memory shard-all shards a model that is on one device.",
            f"{type(model).__name__} on {' and '.join(sorted(kinds))}",
            "Move all of it: model.to(device).",
        )
    return init_device_mesh(kinds.pop(), (dist.get_world_size(),))


def _check_mean(mesh: DeviceMesh) -> None:
    """Check that FSDP2 takes the mean of the ranks' gradients: torch 2.7.0 takes their sum on gloo.

    Raises:
        InvalidInput: it does not.
    """
    # Which draws no random numbers: the program's must stay as they are.
    probe = torch.nn.utils.skip_init(torch.nn.Linear, 1, 1, bias=False, device=mesh.device_type)
    fully_shard(probe, mesh=mesh)
    probe(torch.ones(1, 1, device=mesh.device_type)).sum().backward()
    mean = float(probe.weight.grad.full_tensor())
    if not _MEAN[0] < mean < _MEAN[1]:
        raise InvalidInput(
            "FSDP2 must take the mean of the ranks' gradients.",
            f"torch {torch.__version__}, which makes {mean:g} of 1 on each of {mesh.size()} ranks",
            "Install a newer torch, or leave --memory shard-all out.",
        )


def _replace(optimizer: torch.optim.Optimizer, by: Mapping[int, torch.Tensor]) -> None:
    """Give an optimizer the sharded parameters, and the state that it may have, of a file, with them."""
    for group in optimizer.param_groups:
        for old in group["params"]:
            if id(old) in by and old in optimizer.state:
                state = optimizer.state.pop(old)
                new = by[id(old)]
                optimizer.state[new] = {name: _divided(value, new) for name, value in state.items()}
        group["params"] = [by.get(id(old), old) for old in group["params"]]


class _Calls:
    """What happens around each call of a sharded model.

    Args:
        model: it.
        group: in which it was sharded: FSDP2 keeps to that one.
    """

    def __init__(self, model: torch.nn.Module, group: Any) -> None:
        self._group = group
        self._modes: list[ExitStack] = []
        model.register_forward_pre_hook(self._begin, prepend=True)
        model.register_forward_hook(self._end, always_call=True)

    def _begin(self, model: Any, _args: Any) -> None:
        if not dist.is_initialized() or dist.group.WORLD is not self._group:
            raise InvalidInput(
                "A sharded model trains in the process group in which it was sharded, which a released cell ends.",
                f"a call of {type(model).__name__}, whose group has ended",
                "Take saved = model.state_dict(), optimizer.state_dict(), which are as they were; make both again, and "
                "load them.",
            )
        mode = ExitStack()
        self._modes.append(mode)
        if torch.is_inference_mode_enabled():
            # FSDP2 keeps what it gathers into, and what is made in that mode could not be trained with later.
            mode.enter_context(torch.inference_mode(mode=False))
            mode.enter_context(torch.no_grad())

    def _end(self, *_: Any) -> None:
        if self._modes:
            self._modes.pop().close()


def _divided_weights(model: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if prefix + name in state:
            state[prefix + name] = _divided(state[prefix + name], parameter)


def _divided_state(optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    mine = [one for group in optimizer.param_groups for one in group["params"]]
    # By their order: a file has numbers for them, or names.
    keys = [key for group in state["param_groups"] for key in group["params"]]
    if len(keys) != len(mine):
        # Refused by load_state_dict itself.
        return state
    divided = dict(state["state"])
    for key, parameter in zip(keys, mine, strict=True):
        if key in divided:
            divided[key] = {name: _divided(value, parameter) for name, value in divided[key].items()}
    return {**state, "state": divided}


def _divided(value: Any, parameter: torch.Tensor) -> Any:
    """Return this rank's part of rank 0's tensor, where the parameter is sharded and has its shape. Collective."""
    if not isinstance(value, torch.Tensor) or not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    if isinstance(value, DTensor):
        return value
    return distribute_tensor(value.detach().to(parameter.device), parameter.device_mesh, parameter.placements)
