"""What the benchmark found, as one record.

Runs on: a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.scaling.points import Point
    from jupyter_ddl.scaling.prediction import Prediction
    from jupyter_ddl.scaling.sides import Plan


@dataclass(frozen=True)
class Results:
    """What the benchmark found.

    Attributes:
        model: its name.
        source: of the model.
        mode: "weak" (a rank's batch stays) or "strong" (the batch of all ranks stays).
        machine: what it ran on.
        plan: sizes and steps.
        points: measured.
        predictions: by each algorithm.
        loss: that the times to a loss are for.
    """

    model: str
    source: str
    mode: str
    machine: dict[str, Any]
    plan: Plan
    points: tuple[Point, ...]
    predictions: tuple[Prediction, ...]
    loss: float
