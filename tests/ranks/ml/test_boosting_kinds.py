"""What XGBoost and LightGBM train besides two classes, and what they are evaluated on, over the rows of two ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ranks.ml.test_boosting import program_of

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SPLIT = """
import numpy as np, zlib
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split
from jupyter_ddl import ml
x, x_test, y, y_test = train_test_split(*LOAD(return_X_y=True), random_state=0)
"""
# What each library takes for a kind of target, and scikit-learn's loss of a prediction: of 450 rows, and of 111.
KINDS = {
    "classes": ("load_digits", "log_loss", {"xgboost": "multi:softprob", "lightgbm": "multiclass"}, {"num_class": 10}),
    "numbers": (
        "load_diabetes",
        "root_mean_squared_error",
        {"xgboost": "reg:squarederror", "lightgbm": "regression"},
        {},
    ),
}
TRAINED = {
    "xgboost": """
import xgboost
given = {"nthread": 1, "tree_method": "hist", "max_depth": 3, "eta": 0.2, **PARAMS}
on_ranks, alone = ml.train_xgboost(given, x, y, 30), xgboost.train(given, xgboost.DMatrix(x, label=y), 30)
ours, one = (LOSS(y_test, booster.predict(xgboost.DMatrix(x_test))) for booster in (on_ranks, alone))
(float(ours), float(one), zlib.crc32("".join(on_ranks.get_dump()).encode()))
""",
    "lightgbm": """
import lightgbm
given = {"num_threads": 1, "num_leaves": 7, "learning_rate": 0.2, "verbosity": -1, **PARAMS}
on_ranks, alone = ml.train_lightgbm(given, x, y, 30), lightgbm.train(given, lightgbm.Dataset(x, label=y), 30)
ours, one = (LOSS(y_test, booster.predict(x_test)) for booster in (on_ranks, alone))
(float(ours), float(one), zlib.crc32(on_ranks.model_to_string().split("parameters:")[0].encode()))
""",
}


def values(session: Session, code: str) -> list[Any]:
    """Return what each rank's last line gives."""
    return [eval(str(of.value)) for of in session.run(code, timeout_s=120).ranks.values()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", TRAINED)
def test_classes_and_numbers_are_learned_as_well_as_by_one_process(bare: Session, library: str, kind: str) -> None:
    program_of(library)
    load, loss, objectives, more = KINDS[kind]
    params = {"objective": objectives[library], **more}
    code = (SPLIT + TRAINED[library]).replace("LOAD", load).replace("LOSS", loss).replace("PARAMS", repr(params))
    first, second = values(bare, code)
    assert first == second
    ours, one, _ = first
    assert ours == pytest.approx(one, rel=0.1)


# Of a model that learns the rows by heart: the loss of the others falls, and then grows.
EVALUATED = """
import xgboost
history, params = {}, {"objective": "multi:softprob", "num_class": 10, "nthread": 1, "max_depth": 6, "eta": 0.5}
booster = ml.train_xgboost(
    params, x, y, 200, evals=[(x, y, "own"), (x_test, y_test, "other")], evals_result=history,
    early_stopping_rounds=3, verbose_eval=False,
)
best = booster.best_iteration
def whole(x, y): return float(log_loss(y, booster.predict(xgboost.DMatrix(x), iteration_range=(0, best + 1))))
losses = [[float(one) for one in history[name]["mlogloss"]] for name in ("own", "other")]
(best, booster.num_boosted_rounds(), losses, [one[best] for one in losses], [whole(x, y), whole(x_test, y_test)])
"""


def test_xgboost_is_evaluated_on_the_rows_of_all_ranks_and_stops_on_all(bare: Session) -> None:
    program_of("xgboost")
    first, second = values(bare, (SPLIT + EVALUATED).replace("LOAD", "load_digits"))
    assert first == second
    best, rounds, _, at_best, whole = first
    assert rounds == best + 4 < 200
    # Each rank has evaluated its part; the figures are of all rows.
    assert at_best == pytest.approx(whole, rel=1e-4)


VALIDATED = """
import lightgbm
history, params = {}, {"objective": "multiclass", "num_class": 10, "num_threads": 1, "learning_rate": 0.5}
booster = ml.train_lightgbm(
    {**params, "verbosity": -1}, x, y, 200, valid_sets=[lightgbm.Dataset(x_test, label=y_test)],
    callbacks=[lightgbm.record_evaluation(history), lightgbm.early_stopping(3, verbose=False)],
)
losses = [float(one) for one in history["valid_0"]["multi_logloss"]]
(booster.best_iteration, len(losses), losses, float(log_loss(y_test, booster.predict(x_test))))
"""


def test_lightgbm_is_evaluated_on_what_each_rank_has_whole_and_stops_on_all(bare: Session) -> None:
    program_of("lightgbm")
    first, second = values(bare, (SPLIT + VALIDATED).replace("LOAD", "load_digits"))
    assert first == second
    best, rounds, losses, whole = first
    assert rounds == best + 3 < 200
    assert losses[best - 1] == pytest.approx(whole, rel=1e-6)
