"""README's cell of PyTorch runs as it stands, and the ranks train one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readme import cell_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session


def test_the_cell_of_pytorch_trains_one_model(torch_ranks: Callable[[int], Session]) -> None:
    session = torch_ranks(2)
    session.run(cell_with("DistributedDataParallel"))
    sums = session.run("float(sum(weights.abs().sum() for weights in model.parameters()))").ranks
    assert sums[0].value == sums[1].value
