"""Snap ML's forests over two ranks, as docs/ml.md says. Skipped where Snap ML is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_ddl

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

# Importing it warns of NumPy's names, and of the processor.
pytestmark = [pytest.mark.mpi, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Cannot detect CPU")]


@pytest.fixture(autouse=True)
def _installed() -> None:
    if find_spec("snapml") is None:
        pytest.skip("snapml is not installed: pip install 'jupyter_ddl[snapml]'")


def test_ranks_train_parts_of_a_forest_of_snap_mls(bare: Session) -> None:
    from joblib import Parallel, delayed
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, x_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)

    def part(seed: int, trees: int = 25) -> Any:
        from snapml import RandomForestClassifier

        return RandomForestClassifier(n_estimators=trees, random_state=seed, n_jobs=1).fit(x, y)

    with jupyter_ddl.parallel_backend(session=bare, quiet=True):
        forests = Parallel(batch_size=1)(delayed(part)(seed) for seed in range(2))
    probability = sum(forest.predict_proba(x_test) for forest in forests) / len(forests)
    ours = float((probability.argmax(axis=1) == y_test).mean())
    one = float((part(0, trees=50).predict_proba(x_test).argmax(axis=1) == y_test).mean())
    # Of 450 rows.
    assert ours == pytest.approx(one, abs=0.03)
    assert ours > 0.9


OWN_ROWS = """
import warnings
warnings.simplefilter("ignore")
from mpi4py import MPI
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from snapml import RandomForestClassifier

x, x_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
mine = slice(rank, None, world_size)
forest = RandomForestClassifier(n_estimators=25, random_state=rank).fit(x[mine], y[mine])
parts = MPI.COMM_WORLD.allgather(forest.predict_proba(x_test))
ours = float(((sum(parts) / world_size).argmax(axis=1) == y_test).mean())
one = float((RandomForestClassifier(n_estimators=50, random_state=0).fit(x, y).predict(x_test) == y_test).mean())
"""


def test_each_rank_trains_on_its_own_rows_and_all_predict_together(bare: Session) -> None:
    bare.run(OWN_ROWS, timeout_s=200)
    ours, one = bare.pull("ours"), bare.pull("one")
    assert len(set(ours.values())) == 1
    # Of 143 rows.
    assert ours[0] == pytest.approx(one[0], abs=0.03)
    assert ours[0] > 0.9
