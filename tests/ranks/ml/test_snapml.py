"""Snap ML's forests, trained in parts by two ranks as docs/ml.md says. Skipped where Snap ML is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_ddl

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

# Importing it warns of NumPy's names, and of the processor.
pytestmark = [pytest.mark.mpi, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Cannot detect CPU")]


def test_ranks_train_parts_of_a_forest_of_snap_mls(bare: Session) -> None:
    if find_spec("snapml") is None:
        pytest.skip("snapml is not installed: pip install 'jupyter_ddl[snapml]'")
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
