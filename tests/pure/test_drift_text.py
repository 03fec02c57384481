"""What is told of ranks that hold different weights."""

from __future__ import annotations

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import CellOptions, check_on_drift
from jupyter_ddl.training.consistency.drift import Drift, Weight

KERNEL, BIAS = Weight("conv2d_1/kernel", 0.123), Weight("conv2d_1/bias", 0.5, is_matrix=False)
BROADCAST = "hvd.callbacks.BroadcastGlobalVariablesCallback(0)"


def test_since_when_who_where_and_by_how_much() -> None:
    drift = Drift((3,), (0, 1, 2), 4, (KERNEL, BIAS), matrices=2, since_epoch=2)
    assert str(drift) == (
        "All ranks must hold the same weights. Received: rank 3 of 4 differs from ranks 0-2 since epoch 2, in layer "
        "conv2d_1 (kernel by 0.12 of its norm, bias by 0.5 of its norm). Likely cause: in epoch 2 weights were set on "
        "some ranks only, by a callback or from a file. Set them on all ranks, or call "
        "hvd.broadcast_variables(model.weights, 0) after it."
    )


def test_many_layers_are_counted() -> None:
    weights = tuple(Weight(f"dense_{i}/kernel", float("nan")) for i in range(5))
    told = str(Drift((1, 2), (0,), 3, weights, matrices=5, since_epoch=1, first_steps=3))
    assert (
        "ranks 1-2 of 3 differ from rank 0 since epoch 1 (seen after step 3), in layer dense_0 (kernel is not" in told
    )
    assert "dense_2 (kernel is not a number) and 2 more. Likely cause: the ranks began with different weights" in told
    assert told.endswith(f"Pass {BROADCAST} to fit.")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"matrices": 2, "first_steps": 3}, "these were set on some ranks only, or are trained by something that"),
        ({"optimizer": ("a", "b", "c")}, "the optimizer's state differs too (a, b and 1 more): loaded on some"),
        (
            {"optimizer": ("a",), "rates": {0: 0.1, 1: 0.01}},
            "the learning rates differ (0.1 on rank 0, 0.01 on rank 1)",
        ),
    ],
)
def test_causes(found: dict[str, object], told: str) -> None:
    assert f"Likely cause: {told}" in str(Drift((1,), (0,), 2, (KERNEL,), since_epoch=1, **found))  # type: ignore[arg-type]


def test_options() -> None:
    with pytest.raises(InvalidInput) as raised:
        check_on_drift("go on")
    assert str(raised.value) == (
        "On drift fit can stop or warn. Received: go on. Pass stop, which is the default, or warn."
    )
    with pytest.raises(InvalidInput, match=r"Received: ranks 0 of 2\. Drop -r, or --checkpoint\."):
        CellOptions(checkpoint="a").checked((0,), world_size=2)
    assert CellOptions(independent=True).checked((0,), world_size=2).checkpoint is None
