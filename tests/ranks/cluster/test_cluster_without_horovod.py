"""Ranks with no Horovod: plain cells run, and what needs it says so and hangs nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


@pytest.mark.slow
def test_on_every_rank(tmp_path: Path) -> None:
    with jupyter_ddl.start(n=2, name="bare", env=without(tmp_path, "horovod")) as session:
        assert session.run("rank + 1").ranks[1].value == "2"
        warm = session.wait_warm()
        assert {of.problem for of in warm.values()} == {"ImportError: no such library"}
        assert warm[0].versions["tensorflow"]
        with pytest.raises(RankError, match="ImportError: no such library") as error:
            session.run("import horovod.tensorflow as hvd")
        assert len(error.value.failures) == 2
        assert session.run("import tensorflow as tf\nint(tf.constant(2) + rank)").ranks[1].value == "3"


def test_on_one_rank_only(tmp_path: Path) -> None:
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text(
        "import os\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': raise ImportError('no such library')\n"
        "__path__[:] = [p for p in __import__('pkgutil').extend_path(__path__, __name__) if 'pytest' not in p]\n"
        "__version__ = '0.28.1'\n"
    )
    with jupyter_ddl.start(n=2, name="bare", env={"PYTHONPATH": str(tmp_path)}) as session:
        warm = session.wait_warm()
        assert warm[1].problem == "ImportError: no such library"
        assert warm[0].problem == "another rank cannot import Horovod"
        for _ in range(2):
            with pytest.raises(RankError) as error:
                session.run("import horovod.tensorflow as hvd\nhvd.init()")
            told = {failure.rank: failure.message for failure in error.value.failures}
            assert told[1] == "no such library"
            assert told.get(0, "").startswith("Every rank must have a Horovod that works, since they initialise it")
            assert "Received: another rank cannot import Horovod. Run `jupyter ddl doctor`" in told[0]
        assert session.run("import tensorflow as tf\nint(tf.constant(2) + rank)").ranks[1].value == "3"
