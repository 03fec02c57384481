"""scikit-learn accelerated on ranks, and imports of H2O4GPU there."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


def test_h2o4gpu_says_on_a_rank_what_is_written_today(bare: Session) -> None:
    wanted = r"H2O4GPU is not installed[\s\S]*from sklearn.cluster import KMeans[\s\S]*%ddl start --sklearn cuml"
    for code in ("from h2o4gpu.solvers import KMeans", "import h2o4gpu as sklearn"):
        with pytest.raises(RankError, match=wanted):
            bare.run(code)
    with pytest.raises(RankError, match=r"written `import snapml` today"):
        bare.run("import pai4sk")
    # A program that tries it, and does without.
    tried = "try:\n    import h2o4gpu\nexcept ImportError as error:\n    has = error.name\nhas"
    assert bare.run(tried).ranks[1].value == "'h2o4gpu'"


def test_scikit_learn_intelex_takes_over_and_says_what(tmp_path: Path) -> None:
    if find_spec("sklearnex") is None:
        pytest.skip("scikit-learn-intelex is not installed: pip install 'jupyter_ddl[intelex]'")
    with jupyter_ddl.start(n=2, name="intelex", env=without(tmp_path, "tensorflow"), sklearn="intelex") as session:
        result = session.run(
            "from sklearn.cluster import DBSCAN, KMeans\n"
            "from sklearn.datasets import load_digits\n"
            "x, y = load_digits(return_X_y=True)\n"
            "for _ in range(2):\n"
            "    DBSCAN(metric='manhattan').fit(x)\n"
            "KMeans(10, random_state=0).fit(x)\n"
            "KMeans.__module__.partition('.')[0]"
        )
        assert {rank.value for rank in result.ranks.values()} == {"'sklearnex'"}
        said = result.ranks[0].stdout
        assert "accelerated by scikit-learn-intelex" in said
        assert "KMeans" in said.splitlines()[0]
        assert said.count("cluster.DBSCAN.fit falls back to scikit-learn's own") == 1
        assert "KMeans.fit falls" not in said
        assert result.ranks[1].stdout == ""

        def module() -> str:
            from sklearn.cluster import KMeans

            return str(KMeans.__module__).partition(".")[0]

        # joblib's tasks too.
        with jupyter_ddl.parallel_backend(session=session, quiet=True):
            from joblib import Parallel, delayed

            assert set(Parallel()(delayed(module)() for _ in range(4))) == {"sklearnex"}
