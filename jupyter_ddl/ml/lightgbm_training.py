"""Trains one LightGBM model on the rows of all ranks, by LightGBM's own sockets between them.

Runs on: every rank.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.ml import exchange
from jupyter_ddl.ml.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MISSING = "pip install 'jupyter_ddl[boosting]'"
# Minutes that a rank waits for another's socket. Source: LightGBM 4.7, docs/Parameters.rst, time_out
_TIME_OUT_MIN = 2


def train_lightgbm(
    params: Mapping[str, Any],
    x: Any,
    y: Any,
    num_boost_round: int = 100,
    *,
    weight: Any = None,
    divide: bool = True,
    **options: Any,
) -> Any:
    """Train one LightGBM model on the rows of all ranks, and return it on each.

    Collective: every rank must call this, in the same order. Each rank finds the bins of some features from its own
    rows, so that the trees differ a little from one process's.

    Args:
        params: as `lightgbm.train` takes them; `tree_learner` is "data" and `num_threads` the rank's share of the cores
            unless they are set.
        x: the rows: NumPy, SciPy's sparse, or pandas.
        y: the targets.
        num_boost_round: trees, or rounds of them.
        weight: of each row.
        divide: x, y and weight have all rows, the same on each rank, which takes its part; False: they are its own.
        options: more of `lightgbm.train`, as callbacks.

    Returns:
        A `lightgbm.Booster`, the same on all ranks.

    Raises:
        InvalidInput: LightGBM is not installed, or the arrays do not fit.
        lightgbm.basic.LightGBMError: as lightgbm.train; or another rank has ended the training.

    Source: LightGBM 4.7, docs/Parallel-Learning-Guide.rst, "Socket Version".

    Example:
        >>> booster = train_lightgbm({"objective": "binary"}, x, y, num_boost_round=50)
    """
    try:
        import lightgbm
    except ImportError as error:
        raise InvalidInput("train_lightgbm takes LightGBM on the ranks.", str(error), _MISSING) from error
    own = exchange.here()
    rank, world_size = exchange.world_of(own)
    if divide:
        x, y, weight = rows_of(rank, world_size, x, y, weight)
    given = {"num_threads": int(os.environ.get("OMP_NUM_THREADS", "1")), "tree_learner": "data", **params}
    if world_size > 1:
        with HeldPorts() as ports:
            # All ranks choose before one of them listens.
            port = ports.add()
            places = own.allgather((exchange.own_address(), port))
        given |= {
            "num_machines": world_size,
            "machines": ",".join(f"{address}:{number}" for address, number in places),
            "local_listen_port": port,
            "pre_partition": True,
            "time_out": _TIME_OUT_MIN,
        }
    train = lightgbm.Dataset(x, label=y, weight=weight, params=given)
    booster = lightgbm.train(given, train, num_boost_round, **options)
    # It would hold its sockets, and a copy of the rows.
    return booster.free_network().free_dataset() if world_size > 1 else booster
