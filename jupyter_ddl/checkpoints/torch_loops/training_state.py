"""What a loop of PyTorch's trains: written and read as one checkpoint, on any number of ranks.

    .metadata, __K_N.distcp   models and optimizers, by torch.distributed.checkpoint: of what is sharded a rank's part
    other.pt                  the state of everything else, as schedulers; of rank 0
    random-K.pt               rank K's random states, now and when the cell began

Runs on: every rank.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files
from jupyter_ddl.memory.saved_parts import saving_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_OTHER = "other.pt"
_RANDOM = "random-{}.pt"
_NAMED = 5


class TrainingState:
    """The things of one loop, by the names that its program gave them.

    Args:
        things: models, optimizers of their parameters, and whatever has `state_dict` and `load_state_dict`.

    Raises:
        InvalidInput: one of them has no state, or there is no model.
    """

    def __init__(self, things: Mapping[str, Any]) -> None:
        self._models = {name: one for name, one in things.items() if isinstance(one, torch.nn.Module)}
        self._optimizers = {name: one for name, one in things.items() if isinstance(one, torch.optim.Optimizer)}
        self._others = {
            name: one for name, one in things.items() if name not in self._models and name not in self._optimizers
        }
        for name, one in self._others.items():
            if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
                raise InvalidInput(
                    "What is saved has state_dict and load_state_dict.",
                    f"{name}={type(one).__name__}",
                    "Pass models, optimizers and schedulers by name: epochs(10, model=model, optimizer=optimizer).",
                )
        if not self._models:
            raise InvalidInput(
                "A checkpoint is of a model.",
                f"{', '.join(things) or 'nothing'}, none of which is a torch.nn.Module",
                "Pass it by name: epochs(10, model=model, optimizer=optimizer).",
            )
        # As one, since an optimizer may train several.
        self._model = torch.nn.ModuleDict(self._models)

    def save(self, folder: Path, random: Mapping[str, Any]) -> None:
        """Write it into a folder.

        Collective: every rank must call this.

        Args:
            folder: of all ranks, which is made.
            random: this rank's random states.

        Raises:
            OSError: a rank cannot write its part.
        """
        problem: BaseException | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / _RANDOM.format(rank()), dict(random))
            if rank() == 0:
                _write(folder / _OTHER, {name: one.state_dict() for name, one in self._others.items()})
        except (OSError, RuntimeError) as error:  # torch.save's, of a full disk
            problem = error
        if any(_gathered(problem is not None)):
            raise OSError(str(problem or "another rank could not write"))
        with _without_warnings():
            try:
                dcp.save(self._state(), checkpoint_id=folder)
            except (dcp.api.CheckpointException, OSError, RuntimeError) as error:
                if _is_ended(error):
                    raise
                raise OSError(_reason(error)) from error

    def load(self, folder: Path) -> dict[str, Any] | None:
        """Take it from a folder; return this rank's random states, or None where another number of ranks wrote it.

        Collective: every rank must call this.

        Raises:
            InvalidInput: it is of another model or optimizer.
        """
        with _without_warnings():
            state = self._state()
            self._check(state, folder)
            dcp.load(state, checkpoint_id=folder)
            set_state_dict(
                self._model,
                list(self._optimizers.values()),
                model_state_dict=state["model"],
                optim_state_dict=state["optimizer"],
            )
        others = _loaded(folder / _OTHER)
        if set(others) != set(self._others):
            raise _other_training(folder, [*(set(others) ^ set(self._others))])
        for name, one in self._others.items():
            one.load_state_dict(others[name])
        return random_states(folder)

    def _state(self) -> dict[str, Any]:
        with saving_parts():
            model, optimizer = get_state_dict(self._model, list(self._optimizers.values()))
        return {"model": model, "optimizer": optimizer}

    def _check(self, state: dict[str, Any], folder: Path) -> None:
        metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        saved = {name: tuple(one.size) for name, one in metadata.items() if isinstance(one, TensorStorageMetadata)}
        mine = dict(_sizes(state))
        differing = [name for name in set(saved) | set(mine) if saved.get(name) != mine.get(name)]
        if differing:
            raise _other_training(folder, differing)


def random_states(folder: Path) -> dict[str, Any] | None:
    """Return this rank's random states of a checkpoint; None where another number of ranks wrote it."""
    if len(list(folder.glob(_RANDOM.format("*")))) != _ranks():
        return None
    return _loaded(folder / _RANDOM.format(rank()))


def is_joined() -> bool:
    """Return whether this process has the group of all ranks."""
    return bool(dist.is_available() and dist.is_initialized())


def broadcast(value: Any) -> Any:
    """Return rank 0's value. Collective: every rank must call this."""
    if not is_joined():
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def _gathered(value: Any) -> list[Any]:
    if not is_joined():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def rank() -> int:
    """Return this rank's number; 0 in a process that is no rank."""
    return dist.get_rank() if is_joined() else int(os.environ.get("RANK", "0"))


def _ranks() -> int:
    return dist.get_world_size() if is_joined() else int(os.environ.get("WORLD_SIZE", "1"))


def _sizes(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each tensor of nested dicts and lists: its name, as torch.distributed.checkpoint makes it, and its size."""
    if isinstance(state, torch.Tensor):
        yield ".".join(path), tuple(state.size())
        return
    inner = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list | tuple) else ()
    for key, value in inner:
        yield from _sizes(value, (*path, str(key)))


def _write(path: Path, content: dict[str, Any]) -> None:
    with files.replacing(path, mode=files.SHARED, durable=True) as file:
        torch.save(content, file)


def _loaded(path: Path) -> dict[str, Any]:
    # What a scheduler keeps besides numbers and lists.
    with torch.serialization.safe_globals([Counter]):
        loaded: dict[str, Any] = torch.load(path, weights_only=True)
    return loaded


def _other_training(folder: Path, names: list[str]) -> InvalidInput:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return InvalidInput(
        "A checkpoint is resumed by the models and optimizers that it is of.",
        f"{folder}, which differs in {', '.join(sorted(names)[:_NAMED])}{more}",
        "Pass another folder to train from the start.",
    )


def _is_ended(error: BaseException) -> bool:
    """Return whether a collective was ended while ranks saved: the cell is over, and no disk is at fault."""
    return not isinstance(error, dcp.api.CheckpointException | OSError)


def _reason(error: BaseException) -> str:
    failures = getattr(error, "failures", None)
    first = next(iter(failures.values()), None) if failures else None
    return str(first[0] if first else error)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Leave out what torch warns of by itself: no group, and its own deprecated storage."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
