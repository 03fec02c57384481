"""Makes the ranks agree: on random numbers, on weights, and that they hold the same batches.

Runs on: every rank. All functions here are collective: every rank must call them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def same_random_numbers() -> None:
    """Give every rank the state of rank 0's random numbers on the CPU, from which batches are drawn."""
    state = torch.get_rng_state()
    _from_first_rank(state)
    torch.set_rng_state(state)


def other_noise(rank: int) -> None:
    """Let a rank draw other random numbers than the others from here on: dropout must not be the same on all."""
    if rank > 0:
        # Of the same state on all ranks, so that a program's own seed decides it.
        seed = int(torch.randint(2**62, (), dtype=torch.int64).item())
        torch.manual_seed(seed + rank)


def same_weights(parameters: Iterable[torch.Tensor]) -> None:
    """Give every rank the values that rank 0 has of these."""
    with torch.no_grad():
        for parameter in parameters:
            _from_first_rank(parameter)


def check_same_batches(rows: Sequence[Any]) -> None:
    """Check that all ranks divide the same batch.

    Args:
        rows: the indices of the whole batch.

    Raises:
        InvalidInput: they hold different ones.
    """
    mine = torch.tensor([zlib.crc32(repr(list(rows)).encode())], dtype=torch.int64)
    everyone = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    _gathered(everyone, mine)
    if len({int(one.item()) for one in everyone}) > 1:
        raise InvalidInput(
            "Under --auto every rank must draw the same batches, of which it then takes its part.",
            "a DataLoader whose order differs between ranks",
            "Give its generator, or the sampler's own random numbers, the same seed on all ranks.",
        )


def _from_first_rank(tensor: torch.Tensor) -> None:
    """Replace a tensor's values by those of rank 0, whatever device the group's backend takes."""
    device = _device()
    sent = tensor.detach().to(device).contiguous()
    dist.broadcast(sent, 0)
    if sent.data_ptr() != tensor.data_ptr():
        tensor.copy_(sent)


def _gathered(into: list[torch.Tensor], mine: torch.Tensor) -> None:
    device = _device()
    moved = [one.to(device) for one in into]
    dist.all_gather(moved, mine.to(device))
    for one, value in zip(into, moved, strict=True):
        one.copy_(value)


def _device() -> torch.device:
    """Return a device whose tensors the group's backend takes."""
    return torch.device("cuda" if "nccl" in dist.get_backend() else "cpu")
