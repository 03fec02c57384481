"""Variables that TensorFlow reads at its import: too late in a cell, in time with `env`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.errors import InvalidInput, RankError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


def test_a_variable_set_too_late(session: Session) -> None:
    with pytest.raises(RankError) as error:
        session.run("import os\nos.environ['TF_GPU_ALLOCATOR'] = 'own'\nos.environ['XLA_FLAGS'] = '--a=b'")
    assert len(error.value.failures) == session.world_size
    assert error.value.failures[0].name == "InvalidInput"
    assert error.value.failures[0].message == (
        "TensorFlow reads this variable when it is imported, which happens when the ranks start. "
        "Received: XLA_FLAGS=--a=b TF_GPU_ALLOCATOR=own, set in a cell (put back). "
        "Start the ranks with it: %ddl stop, then %ddl start --env XLA_FLAGS=--a=b --env TF_GPU_ALLOCATOR=own"
    )
    assert (
        session.run("os.environ.get('TF_GPU_ALLOCATOR'), os.environ.get('XLA_FLAGS')").ranks[0].value == "(None, None)"
    )


def test_a_variable_removed_too_late(session: Session) -> None:
    with pytest.raises(RankError, match="TF_NUM_INTRAOP_THREADS=, set in a cell"):
        session.run("import os\ndel os.environ['TF_NUM_INTRAOP_THREADS']")
    assert session.run("int(os.environ['TF_NUM_INTRAOP_THREADS']) > 0").ranks[0].value == "True"


def test_a_cell_that_also_fails_shows_its_own_error_and_leaves_nothing_set(session: Session) -> None:
    with pytest.raises(RankError, match="on purpose"):
        session.run("import os\nos.environ['KERAS_BACKEND'] = 'bogus'\nraise ValueError('on purpose')")
    assert session.run("os.environ.get('KERAS_BACKEND')").ranks[0].value is None


def test_harmless_ones_pass(session: Session) -> None:
    names = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_CPP_MIN_LOG_LEVEL", "MINE")
    lines = [f"os.environ['{name}'] = os.environ.get('{name}', '3')" for name in names]
    assert session.run("import os\n" + "\n".join(lines)).outcome == "finished"
    assert session.run("os.environ['MINE']").ranks[0].value == "'3'"


BACKEND = (
    "Keras on the ranks must use TensorFlow, PyTorch or JAX: training on another backend exchanges no gradients. "
    "Received: "
)
SETTLED = (
    "The ranks find each other through MPI, as mpiexec has started them, and no variable can change that. Received: "
)


def test_another_backend_starts_nothing() -> None:
    with pytest.raises(
        InvalidInput,
        match=f"{BACKEND}KERAS_BACKEND=bogus. Set KERAS_BACKEND=tensorflow, KERAS_BACKEND=torch or KERAS_BACKEND=jax",
    ):
        jupyter_ddl.start(n=2, name="variables", env={"KERAS_BACKEND": "bogus"})


@pytest.mark.parametrize(
    "trains",
    [
        "hvd.init()",
        "model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)",
        "model.train_on_batch(np.ones((4, 2)), np.ones((4, 1)))",
        "hvd.DistributedOptimizer(keras.optimizers.SGD())",
        "hvd.DistributedGradientTape(tf.GradientTape())",
    ],
)
def test_it_is_an_error_before_the_cell_trains(pair: Session, trains: str) -> None:
    pair.run("""
import os, keras, numpy as np, tensorflow as tf
import jupyter_ddl.keras as hvd
hvd.init()
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile('sgd', 'mse')
trained = False
""")
    code = f"os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'\n{trains}\ntrained = True"
    with pytest.raises(RankError, match="TF_ENABLE_ONEDNN_OPTS=0, set in a cell"):
        pair.run(code, independent=True)
    assert pair.run("trained, os.environ.get('TF_ENABLE_ONEDNN_OPTS')").ranks[0].value == "(False, None)"


def test_what_is_settled_is_refused_and_the_next_cell_works(pair: Session) -> None:
    pair.run("import os\nimport tensorflow as tf\nimport jupyter_ddl.keras as hvd\nhvd.init()")
    for assignment in ("HOROVOD_CONTROLLER=gloo", "HOROVOD_GLOO_IFACE=lo", "OMPI_COMM_WORLD_RANK=7", "HOROVOD_RANK=1"):
        name, _, value = assignment.partition("=")
        for more in ("", "\nhvd.init()", "\nhvd.shutdown()\nhvd.init()"):
            with pytest.raises(RankError) as raised:
                pair.run(f"os.environ['{name}'] = '{value}'{more}")
            assert f"{SETTLED}{assignment}, set in a cell (put back). Leave it out" in raised.value.failures[0].message
            assert pair.run("float(hvd.allreduce(tf.ones([]), op=hvd.Sum))").ranks[1].value == "2.0"
    pair.run("os.environ['HOROVOD_CONTROLLER'] = 'mpi'\nhvd.init()")
    pair.run("del os.environ['HOROVOD_CONTROLLER']")


def test_what_holds_anyway_and_what_does_no_harm(pair: Session) -> None:
    told = pair.run("import os\nos.environ['KERAS_BACKEND'] = 'tensorflow'\nos.environ['OMP_NUM_THREADS'] = '97'").ranks
    assert told[0].stderr.startswith("WARNING: TensorFlow reads this variable when it is imported")
    assert "OMP_NUM_THREADS=97, set in a cell" in told[0].stderr
    assert "KERAS_BACKEND" not in told[0].stderr
    with pytest.raises(RankError, match="KERAS_BACKEND=torch, set in a cell"):
        pair.run("os.environ['KERAS_BACKEND'] = 'torch'")
    pair.run("os.environ.pop('KERAS_BACKEND')")


def test_a_keras_that_fails_while_a_cell_waits_for_it_fails_in_the_cell(tmp_path: Path) -> None:
    keras = tmp_path / "keras"
    keras.mkdir()
    (keras / "__init__.py").write_text("import time\ntime.sleep(2)\nraise ValueError('bogus')\n")
    with jupyter_ddl.start(n=1, name="variables", env=without(tmp_path, "tensorflow")) as session:
        session.wait_warm()
        # The rank's own import of Keras takes two seconds more.
        with pytest.raises(RankError, match="bogus"):
            session.run("import keras")
