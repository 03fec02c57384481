"""A library of collectives that a site's package adds: it is told of cells, and a rank that waits in it is released."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import ClusterStartFailed, RankError
from tests.site_package import ALONE, TRAINING, variables, write_package

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


@pytest.fixture
def package(tmp_path: Path) -> Path:
    write_package(tmp_path)
    return tmp_path


def test_a_rank_that_waits_in_a_sites_own_collective_is_released(package: Path) -> None:
    with jupyter_ddl.start(n=2, name="site", env=variables(package), framework="none") as session:
        result = session.run("import site_comm; float(site_comm.sums.sum(rank + 1))")
        assert [one.value for one in result.ranks.values()] == ["3.0"] * 2
        pids = [ready.pid for ready in session.ranks]
        with pytest.raises(RankError) as raised:
            session.run("if rank == 1:\n    raise ValueError('alone')\nsite_comm.sums.sum(1)", timeout_s=60)
        assert [(one.rank, one.name) for one in raised.value.failures] == [(1, "ValueError")]
        assert [ready.pid for ready in session.ranks] == pids
        again = session.run("float(site_comm.sums.sum(rank + 1))", timeout_s=60)
        assert [one.value for one in again.ranks.values()] == ["3.0"] * 2, "mixed with what was given up"
        assert session.run("site_comm.sums.turns[-1]", ranks=[0]).ranks[0].value == "True"


def test_one_that_cannot_be_loaded_is_named(package: Path) -> None:
    (package / "site_comm.py").write_text("import no_such_library")
    with pytest.raises(ClusterStartFailed, match=r"sums \(site_comm:library\) of the package site-comm, which raised"):
        jupyter_ddl.start(n=2, name="site", env=variables(package), framework="none")


# --- gradients through it ---------------------------------------------------------------------------------------------


def test_gradients_go_through_the_library_that_is_chosen(package: Path) -> None:
    env = {**variables(package), "JUPYTER_DDL_EXCHANGE": "sums"}
    with jupyter_ddl.start(n=2, name="site", env=env) as session:
        session.run(TRAINING.format(options=""), timeout_s=200)
        counts = session.run("site_comm.sums.count - before")
        # Two dense gradients and a sparse one, each by itself, in each of four steps.
        assert {int(str(one.value)) for one in counts.ranks.values()} == {12}
        weights = session.run("[one.tolist() for one in model.get_weights()]")
        assert len({one.value for one in weights.ranks.values()}) == 1
        difference = session.run(ALONE, timeout_s=200, independent=True)
        assert all(float(str(one.value)) < 1e-6 for one in difference.ranks.values())

        # A rank that raises releases the one that waits in the library.
        leaving = (
            "class Leave(keras.callbacks.Callback):\n"
            "    def on_train_batch_begin(self, batch, logs=None):\n"
            "        if rank == 1:\n"
            "            raise ValueError('alone')\n"
            "model.fit([x[half], words[half]], y[half], batch_size=8, epochs=2, verbose=0, callbacks=[Leave()])"
        )
        with pytest.raises(RankError) as raised:
            session.run(leaving, timeout_s=100)
        assert [(one.rank, one.name) for one in raised.value.failures] == [(1, "ValueError")]

        with pytest.raises(RankError, match=r"A site's library of collectives sums\. Received: op=Adasum\."):
            session.run(TRAINING.format(options="op=hvd.Adasum"), timeout_s=200)


def test_one_that_is_chosen_and_does_not_sum_is_named(package: Path) -> None:
    def refusal(name: str) -> str:
        env = {**variables(package), "JUPYTER_DDL_EXCHANGE": name}
        with pytest.raises(ClusterStartFailed) as raised:
            jupyter_ddl.start(n=2, name="site", env=env, framework="none")
        return str(raised.value)

    assert "none_such: the entry points of jupyter_ddl.collectives here are sums" in refusal("none_such")
    whole = (package / "site_comm.py").read_text()
    (package / "site_comm.py").write_text(whole.replace("def broadcast", "def other"))
    assert "sums: it has no broadcast" in refusal("sums")
    (package / "site_comm.py").write_text(whole.replace("return self.communicator.size", "return 1"))
    assert re.search(r"sums: it counts this rank as \d of 1, and MPI as \d", refusal("sums"))
    (package / "site_comm.py").write_text(
        whole.replace("        return total\n\n    def broadcast", "        return array\n\n    def broadcast")
    )
    assert "sums: its sum of 1 over 2 ranks is 1" in refusal("sums")
