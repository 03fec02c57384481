"""Machine learning that is not deep, on the ranks: one model trained by all of them, and scikit-learn accelerated.

    %%distributed
    from jupyter_ddl import ml
    booster = ml.train_xgboost({"objective": "binary:logistic"}, x, y, num_boost_round=50)

| module | holds |
|---|---|
| `xgboost_training`, `lightgbm_training` | training by the library's own collective, over sockets between the ranks |
| `rows` | a rank's part of the rows |
| `exchange` | what the ranks must know of each other first: addresses, ports |
| `accelerated` | `%ddl start --sklearn`: scikit-learn patched as it is imported |
| `snapml_alone` | Snap ML on a rank, without the MPI library that its wheel lacks |
| `old_names` | imports of H2O4GPU and pai4sk, which say what is written today |

scikit-learn's own parallelism, from the notebook, is `jupyter_ddl.parallel_backend`. Importing this loads none of the
libraries. Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.ml.lightgbm_training import train_lightgbm
    from jupyter_ddl.ml.xgboost_training import train_xgboost

__all__ = ["train_lightgbm", "train_xgboost"]


def __getattr__(name: str) -> Any:
    if name == "train_xgboost":
        from jupyter_ddl.ml.xgboost_training import train_xgboost

        return train_xgboost
    if name == "train_lightgbm":
        from jupyter_ddl.ml.lightgbm_training import train_lightgbm

        return train_lightgbm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
