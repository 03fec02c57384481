"""Gradients of Keras on PyTorch through a site's library of collectives; Keras on JAX refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import RankError
from tests.site_package import ALONE, TRAINING, variables, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session


def started(folder: Path, backend: str) -> Session:
    write_package(folder)
    env = {**variables(folder), "JUPYTER_DDL_EXCHANGE": "sums", "KERAS_BACKEND": backend}
    return jupyter_ddl.start(n=2, name=f"site-{backend}", env=env, framework=backend)


def test_gradients_on_torch_go_through_the_library_that_is_chosen(tmp_path: Path) -> None:
    with started(tmp_path, "torch") as session:
        session.run(TRAINING.format(options=""), timeout_s=200)
        counts = session.run("site_comm.sums.count - before")
        # All three are of one dtype, and dense on PyTorch: one sum in each of four steps.
        assert {int(str(one.value)) for one in counts.ranks.values()} == {4}
        weights = session.run("[one.tolist() for one in model.get_weights()]")
        assert len({one.value for one in weights.ranks.values()}) == 1
        difference = session.run(ALONE, timeout_s=200, independent=True)
        assert all(float(str(one.value)) < 1e-6 for one in difference.ranks.values())

        with pytest.raises(RankError, match="Adasum is Horovod's, and Keras on torch"):
            session.run(TRAINING.format(options="op=hvd.Adasum"), timeout_s=200)


def test_keras_on_jax_refuses_it(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    with started(tmp_path, "jax") as session:
        session.run("import jax; jax.distributed.initialize()", timeout_s=100)
        with pytest.raises(RankError, match="Keras on JAX exchanges gradients within its compiled step"):
            session.run(TRAINING.format(options=""), timeout_s=200)
