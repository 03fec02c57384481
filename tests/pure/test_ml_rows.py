"""A rank's part of the rows, and the choice of what accelerates scikit-learn."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.ml.rows import rows_of
from jupyter_ddl.paths import SKLEARN_VARIABLE
from jupyter_ddl.protocol import sklearn_names
from jupyter_ddl.protocol.sklearn_names import H2O4GPU_CLASSES, PAI4SK_ARGUMENTS, PAI4SK_CLASSES, checked_sklearn


def test_the_ranks_rows_are_all_rows_once() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = np.arange(22).reshape(11, 2), np.arange(11)
    parts = [rows_of(rank, 3, pandas.DataFrame(x), y, None) for rank in range(3)]
    assert sorted(np.concatenate([part[1] for part in parts])) == list(range(11))
    for rows, targets, weight in parts:
        assert weight is None
        assert rows.to_numpy()[:, 0].tolist() == (2 * targets).tolist()


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"as many rows. Received: 3, 4 rows"):
        rows_of(0, 2, np.zeros((3, 1)), np.zeros(4))
    with pytest.raises(InvalidInput, match=r"Each rank must have a row. Received: 1 rows for 2 ranks"):
        rows_of(0, 2, np.zeros((1, 1)), [1])


def test_an_accelerator_that_is_not_there_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sklearn_names, "find_spec", lambda _: None)
    wanted = r"--sklearn intelex takes the module sklearnex.* pip install 'jupyter_ddl\[intelex\]'"
    with pytest.raises(InvalidInput, match=wanted):
        plan(n=2, gpus="none", environment={SKLEARN_VARIABLE: "intelex"})
    with pytest.raises(InvalidInput, match=r"--sklearn cuml takes the module cuml.* pip install cuml"):
        checked_sklearn("cuml")
    with pytest.raises(InvalidInput, match="Pass intelex, cuml, none"):
        checked_sklearn("fast")
    assert plan(n=2, gpus="none", environment={SKLEARN_VARIABLE: "none"}).environment[SKLEARN_VARIABLE] == "none"


def test_scikit_learn_has_every_class_that_h2o4gpu_is_rewritten_to() -> None:
    pytest.importorskip("sklearn")
    for name, module in H2O4GPU_CLASSES.items():
        assert hasattr(importlib.import_module(f"sklearn.{module}"), name), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Cannot detect CPU")
def test_snapml_has_every_class_and_argument_that_pai4sk_is_rewritten_to() -> None:
    snapml = pytest.importorskip("snapml")
    arguments: set[str] = set()
    for name in PAI4SK_CLASSES:
        arguments.update(inspect.signature(getattr(snapml, name)).parameters)
    assert set(PAI4SK_ARGUMENTS.values()) <= arguments
