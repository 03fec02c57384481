"""XGBoost and LightGBM train one model on the rows of two ranks, as good as one process's. Skipped without them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODULES = {"xgboost": "train_xgboost", "lightgbm": "train_lightgbm"}
DATA = """
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from jupyter_ddl import ml
x, x_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
"""
XGBOOST = (
    DATA
    + """
import xgboost
params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.2, "nthread": 1, "tree_method": "hist"}
def loss_of(booster): return log_loss(y_test, booster.predict(xgboost.DMatrix(x_test)))
def text_of(booster): return "".join(booster.get_dump())
def on_ranks(**options): return ml.train_xgboost(params, x, y, 40, **options)
def alone(): return xgboost.train(params, xgboost.DMatrix(x, label=y), 40)
def stop_at(round):
    class Stop(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, log):
            if epoch == round: raise ValueError("no more")
            return False
    return {"callbacks": [Stop()]}
"""
)
LIGHTGBM = (
    DATA
    + """
import lightgbm
params = {"objective": "binary", "num_leaves": 7, "learning_rate": 0.2, "num_threads": 1, "verbosity": -1}
def loss_of(booster): return log_loss(y_test, booster.predict(x_test))
def text_of(booster): return booster.model_to_string().split("parameters:")[0]
def on_ranks(**options): return ml.train_lightgbm(params, x, y, 40, **options)
def alone(): return lightgbm.train(params, lightgbm.Dataset(x, label=y), 40)
def stop_at(round):
    def stop(env):
        if env.iteration == round: raise ValueError("no more")
    return {"callbacks": [stop]}
"""
)
PROGRAMS = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM}


def program_of(library: str) -> str:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install 'jupyter_ddl[boosting]'")
    return PROGRAMS[library]


@pytest.mark.parametrize("library", PROGRAMS)
def test_ranks_train_one_model_as_good_as_one_process(bare: Session, library: str) -> None:
    code = (
        "import zlib\nbooster = on_ranks()\nloss_of(booster), loss_of(alone()), zlib.crc32(text_of(booster).encode())"
    )
    first, second = (eval(str(rank.value)) for rank in bare.run(program_of(library) + code).ranks.values())
    assert first == second
    ours, one, _ = first
    # Of 143 rows.
    assert ours == pytest.approx(one, abs=0.03)
    assert ours < 0.2


@pytest.mark.parametrize("library", PROGRAMS)
def test_each_rank_can_bring_rows_of_its_own(bare: Session, library: str) -> None:
    own = "x, y = x[rank::world_size], y[rank::world_size]\nloss_of(on_ranks(divide=False))"
    given = bare.run(program_of(library) + own).ranks
    divided = bare.run(program_of(library) + "loss_of(on_ranks())").ranks
    assert [given[rank].value for rank in range(2)] == [divided[rank].value for rank in range(2)]


@pytest.mark.parametrize("library", PROGRAMS)
def test_a_rank_that_raises_ends_the_training_and_the_next_one_works(bare: Session, library: str) -> None:
    before = [ready.pid for ready in bare.ranks]
    raises = "on_ranks(**(stop_at(5) if rank == 1 else {}))"
    with pytest.raises(RankError, match=r"Rank 1 of 2 [\s\S]*no more"):
        bare.run(program_of(library) + raises, timeout_s=120)
    # One that never comes to the training leaves no other waiting, and no message that the next training would take.
    with pytest.raises(RankError, match=r"Rank 1 of 2 [\s\S]*not this one"):
        bare.run("if rank == 1: raise ValueError('not this one')\non_ranks()", timeout_s=120)
    assert [ready.pid for ready in bare.ranks] == before
    assert float(str(bare.run("loss_of(on_ranks())", timeout_s=120).ranks[0].value)) < 0.2


def test_a_library_that_is_not_installed_is_told_with_the_command(bare: Session) -> None:
    code = """
import sys
from unittest.mock import patch
from jupyter_ddl import ml
with patch.dict(sys.modules, {"NAME": None}):
    ml.CALL({}, [[1.0]], [1])
"""
    for library, call in MODULES.items():
        with pytest.raises(
            RankError, match=rf"{call} takes .* on the ranks[\s\S]*pip install 'jupyter_ddl\[boosting\]'"
        ):
            bare.run(code.replace("NAME", library).replace("CALL", call))


def test_a_training_on_some_of_the_ranks_is_refused(bare: Session) -> None:
    code = "from jupyter_ddl.ml import exchange\nexchange.here().allgather(1)"
    with pytest.raises(RankError, match=r"All ranks must train together\. Received: a cell on some"):
        bare.run(code, [1])
    assert [rank.value for rank in bare.run(code).ranks.values()] == ["[1, 1]"] * 2
