"""Trains one XGBoost model on the rows of all ranks, by XGBoost's own collective.

Rank 0 has the tracker, to which all ranks connect; the histograms of gradients are summed over sockets between them.

Runs on: every rank.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.ml import exchange
from jupyter_ddl.ml.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MISSING = "pip install 'jupyter_ddl[boosting]'"


def train_xgboost(
    params: Mapping[str, Any],
    x: Any,
    y: Any,
    num_boost_round: int = 10,
    *,
    weight: Any = None,
    divide: bool = True,
    device: str | None = None,
    **options: Any,
) -> Any:
    """Train one XGBoost model on the rows of all ranks, and return it on each.

    Collective: every rank must call this, in the same order. The trees are those of `tree_method="hist"`, whose bins
    come from all ranks' rows: they differ a little from one process's where a feature has more values than bins.

    Args:
        params: as `xgboost.train` takes them; `nthread` is the rank's share of the cores unless it is set.
        x: the rows: NumPy, SciPy's sparse, or pandas.
        y: the targets.
        num_boost_round: trees, or rounds of them.
        weight: of each row.
        divide: x, y and weight have all rows, the same on each rank, which takes its part; False: they are its own.
        device: "cuda" for the rank's GPU.
        options: more of `xgboost.train`, as early_stopping_rounds; `evals` gives (x, y, name), the same on each rank.

    Returns:
        An `xgboost.Booster`, the same on all ranks.

    Raises:
        InvalidInput: XGBoost is not installed, or the arrays do not fit.
        xgboost.core.XGBoostError: as xgboost.train; or another rank has ended the training.

    Source: xgboost 3.2, python-package/xgboost/tracker.py and collective.py.

    Example:
        >>> booster = train_xgboost({"objective": "binary:logistic"}, x, y, num_boost_round=50)
    """
    try:
        import xgboost
        from xgboost import collective
        from xgboost.tracker import RabitTracker
    except ImportError as error:
        raise InvalidInput("train_xgboost takes XGBoost 2.1 or newer on the ranks.", str(error), _MISSING) from error
    own = exchange.here()
    rank, world_size = exchange.world_of(own)
    if divide:
        x, y, weight = rows_of(rank, world_size, x, y, weight)
    given = {"nthread": int(os.environ.get("OMP_NUM_THREADS", "1")), "tree_method": "hist", **params}
    if device is not None:
        given["device"] = device
    tracker = None
    if rank == 0:
        tracker = RabitTracker(n_workers=world_size, host_ip=os.environ["MASTER_ADDR"], sortby="task")
        tracker.start()
    workers = own.allgather(None if tracker is None else tracker.worker_args())[0]
    with collective.CommunicatorContext(**workers, dmlc_task_id=f"{rank:09}"):
        train = xgboost.DMatrix(x, label=y, weight=weight)
        options["evals"] = _matrices(options.get("evals", ()), rank, world_size, xgboost.DMatrix)
        booster = xgboost.train(given, train, num_boost_round, **options)
    # The tracker must live until each rank has disconnected from it: else that rank raises.
    own.allgather(None)
    del tracker
    return booster


def _matrices(evals: Any, rank: int, world_size: int, matrix: Callable[..., Any]) -> list[tuple[Any, str]]:
    """Return what the training is evaluated on, a part of it on each rank: XGBoost joins their figures."""
    made = []
    for x, y, name in evals:
        rows, targets = rows_of(rank, world_size, x, y)
        made.append((matrix(rows, label=targets), name))
    return made
