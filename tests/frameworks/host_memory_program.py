"""Prints as JSON whether trainings with activations and state on the host are those without."""

import json

import torch

from jupyter_ddl import memory
from jupyter_ddl.memory import host_memory


def trained(*, on_host: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.GELU(), torch.nn.Linear(512, 1)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    if on_host:
        memory.state_on_host(optimizer)
    x, y = torch.randn(256, 64, dtype=torch.float64), torch.randn(256, 1, dtype=torch.float64)
    for _ in range(5):
        optimizer.zero_grad()
        if on_host:
            with memory.activations_on_host(2**16, of_any_device=True):
                loss = torch.nn.functional.mse_loss(model(x), y)
        else:
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def refused() -> list[str]:
    told = []
    for call in (lambda: memory.state_on_host(3), lambda: memory.activations_on_host(-1).__enter__()):
        try:
            call()
        except ValueError as error:
            told.append(str(error))
    return told


COPIED: list[int] = []
_pack = host_memory._Copies.pack


def counted(copies: host_memory._Copies, tensor: torch.Tensor) -> object:
    """Pack a tensor, and note its size where it is copied."""
    kept = _pack(copies, tensor)
    if not isinstance(kept, torch.Tensor):
        COPIED.append(tensor.numel())
    return kept


plain = trained(on_host=False)
host_memory._Copies.pack = counted  # type: ignore[method-assign]
hosted = trained(on_host=True)
farthest = max(float((one - other).abs().max()) for one, other in zip(plain, hosted, strict=True))
print(json.dumps({"farthest": farthest, "copied": sorted(set(COPIED)), "refused": refused()}))
