"""A loop of PyTorch's whose peak of memory is measured: `jupyter ddl run -n 1 [--memory WORDS] PROGRAM ANSWER [MIB]`.

The blocks are those of `memory_program`, and the peak is measured as there.

Runs on: every rank.
"""

from __future__ import annotations

import sys

import torch

from benchmarks.memory_peak import write_peak

WIDTH, INNER, LENGTH, BLOCKS, BATCH, STEPS = 64, 1024, 64, 6, 64, 4


class Block(torch.nn.Module):  # type: ignore[misc]
    """Two linear layers beside the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return x + self.outer(torch.nn.functional.gelu(self.inner(x)))


def main() -> None:
    """Train, and write what was measured."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(Block() for _ in range(BLOCKS)), torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(STEPS * BATCH, LENGTH, WIDTH), torch.randn(STEPS * BATCH, LENGTH, 1)

    def step(rows: slice) -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        return loss.detach()

    def train() -> float:
        losses = [step(slice(first, first + BATCH)) for first in range(0, len(x), BATCH)]
        return float(losses[-1])

    # Threads have started, and the optimizer has its state.
    step(slice(2))
    write_peak(train, len(x), *sys.argv[1:])


if __name__ == "__main__":
    main()
