"""Variables that TensorFlow reads at its import: too late in a cell, in time with `env`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.session import Session

pytestmark = pytest.mark.mpi


def test_a_variable_set_too_late(session: Session) -> None:
    with pytest.raises(RankError) as error:
        session.run("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nos.environ['XLA_FLAGS'] = '--a=b'")
    assert len(error.value.failures) == session.world_size
    assert error.value.failures[0].name == "InvalidInput"
    assert error.value.failures[0].message == (
        "TensorFlow reads this variable when it is imported, which happens when the ranks start. "
        "Received: KERAS_BACKEND=jax XLA_FLAGS=--a=b, set in a cell (put back). "
        "Start the ranks with it: %ddl stop, then %ddl start --env KERAS_BACKEND=jax --env XLA_FLAGS=--a=b"
    )
    assert session.run("os.environ.get('KERAS_BACKEND'), os.environ.get('XLA_FLAGS')").ranks[0].value == "(None, None)"


def test_a_variable_removed_too_late(session: Session) -> None:
    with pytest.raises(RankError, match="TF_NUM_INTRAOP_THREADS=, set in a cell"):
        session.run("import os\ndel os.environ['TF_NUM_INTRAOP_THREADS']")
    assert session.run("int(os.environ['TF_NUM_INTRAOP_THREADS']) > 0").ranks[0].value == "True"


def test_a_cell_that_also_fails_shows_its_own_error_and_leaves_nothing_set(session: Session) -> None:
    with pytest.raises(RankError, match="on purpose"):
        session.run("import os\nos.environ['KERAS_BACKEND'] = 'jax'\nraise ValueError('on purpose')")
    assert session.run("os.environ.get('KERAS_BACKEND')").ranks[0].value is None


def test_harmless_ones_pass(session: Session) -> None:
    names = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_CPP_MIN_LOG_LEVEL", "MINE")
    lines = [f"os.environ['{name}'] = os.environ.get('{name}', '3')" for name in names]
    assert session.run("import os\n" + "\n".join(lines)).outcome == "finished"
    assert session.run("os.environ['MINE']").ranks[0].value == "'3'"


def test_env_is_there_before_tensorflow_is_imported(tmp_path: Path) -> None:
    with jupyter_ddl.start(n=1, name="variables", env={"KERAS_HOME": str(tmp_path), "MINE": "a b"}) as session:
        code = "import os, keras\nos.environ['MINE'], keras.config.backend()"
        assert session.run(code).ranks[0].value == "('a b', 'tensorflow')"
        assert session.run("os.environ['KERAS_HOME']").ranks[0].value == repr(str(tmp_path))


def test_a_backend_that_does_not_exist_ends_nothing() -> None:
    with jupyter_ddl.start(n=2, name="variables", env={"KERAS_BACKEND": "bogus"}) as session:
        assert session.run("rank").ranks[1].value == "1"
        session.wait_warm()
        with pytest.raises(RankError, match="bogus"):
            session.run("import keras")


def test_a_keras_that_fails_while_a_cell_waits_for_it_fails_in_the_cell(tmp_path: Path) -> None:
    keras = tmp_path / "keras"
    keras.mkdir()
    (keras / "__init__.py").write_text("import time\ntime.sleep(3)\nraise ValueError('bogus')\n")
    with jupyter_ddl.start(n=1, name="variables", env={"PYTHONPATH": str(tmp_path)}) as session:
        session.wait_warm()
        # The rank's own import of Keras goes on for seconds yet.
        with pytest.raises(RankError, match="bogus"):
            session.run("import keras")
