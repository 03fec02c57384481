"""IBM's DDL on ranks: the slides' program unchanged, one with nothing but `import ddl`, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ranks import program_runs
from ranks.program_runs import Outcome, run_in_cell, write_mnist
from ranks.script_jobs import COMMAND, TIMEOUT_S

import jupyter_ddl
from jupyter_ddl.errors import RankError
from jupyter_ddl.paths import DATA_VARIABLE
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.memory_options import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SLIDES = Path(__file__).with_name("ibm_ddl_mnist.py")

MODEL = """
import ddl
import keras, numpy as np
x = np.arange(64, dtype="float32").reshape(32, 2) / 64
y = x @ np.array([[1.0], [-2.0]], "float32")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile(keras.optimizers.SGD(0.1), "mse")
"""
WEIGHTS = "[one.tolist() for one in model.get_weights()]"

# The same mathematics in NumPy: a step takes batch k of both ranks' halves together.
DIVIDED = """
x_own, y_own = (np.array_split(one, ddl.size())[ddl.rank()] for one in (x, y))
model.fit(x_own, y_own, batch_size=4, epochs=3, shuffle=False, verbose=0)
"""


def one_process(batch: int, epochs: int, rate: float = 0.1) -> list[list[float]]:
    """Return kernel and bias of that model, trained with the batches of two ranks in one process."""
    x = np.arange(64).reshape(32, 2) / 64
    y = x @ np.array([[1.0], [-2.0]])
    kernel, bias = np.ones((2, 1)), np.zeros(1)
    for _ in range(epochs):
        for start in range(0, 16, batch):
            rows = np.r_[start : start + batch, 16 + start : 16 + start + batch]
            error = x[rows] @ kernel + bias - y[rows]
            kernel = kernel - rate * 2 * x[rows].T @ error / len(rows)
            bias = bias - rate * 2 * error.mean(axis=0)
    return [kernel.ravel().tolist(), bias.tolist()]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Give ranks of these tests' own: on them `import ddl` holds for all later cells."""
    with jupyter_ddl.start(n=2, name="ibm-ddl") as session:
        yield session


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_mnist(folder)
    return folder


def values(session: Session, code: str) -> list[object]:
    """Return what each rank's last line gives."""
    return [eval(str(of.value)) for of in session.run(code, timeout_s=TIMEOUT_S).ranks.values()]


def test_the_slides_program_trains_in_sync_in_a_cell(
    session: Session, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_runs, "PROGRAMS", SLIDES.parent)
    outcome: Outcome = run_in_cell(session, SLIDES.stem, tmp_path, data)
    assert outcome.one("checksums").keys() == {"model"}
    iterations = outcome.one("iterations")
    assert iterations > 0
    assert outcome.exchanges >= iterations
    # The first callback averages the metrics: the same on both ranks.
    assert outcome.one("losses")[-1] < outcome.one("losses")[0]
    assert {"accuracy", "val_accuracy"} <= set(outcome.one("history"))
    assert "Test accuracy:" in outcome.output[0]
    assert "Test accuracy:" not in outcome.output[1]


@pytest.mark.slow
def test_the_slides_program_trains_in_sync_as_a_script(tmp_path: Path, data: Path) -> None:
    program = SLIDES.read_text() + (
        "import zlib\nprint('weights', zlib.crc32(b''.join(one.tobytes() for one in model.get_weights())))\n"
    )
    (tmp_path / "train.py").write_text(program)
    done = subprocess.run(
        [*COMMAND, "-n", "2", "--env", f"{DATA_VARIABLE}={data}", "python", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(set(re.findall(r"weights (\d+)", done.stdout))) == 1
    assert "Test accuracy:" in done.stdout
    assert "import ddl: the program divides its data" in done.stdout + done.stderr
    assert "trains a model of its own" not in done.stdout + done.stderr


def test_divided_data_give_the_weights_of_one_process(session: Session) -> None:
    found = values(session, f"{MODEL}{DIVIDED}{WEIGHTS}")
    assert found[0] == found[1]
    kernel, bias = found[0]  # type: ignore[misc]
    assert np.ravel(kernel) == pytest.approx(one_process(4, 3)[0], rel=1e-4)
    assert bias == pytest.approx(one_process(4, 3)[1], rel=1e-4)


def test_batches_by_hand_are_exchanged_too(session: Session) -> None:
    code = (
        f"{MODEL}x_own, y_own = (np.array_split(one, ddl.size())[ddl.rank()] for one in (x, y))\n"
        "for start in range(0, 16, 4):\n"
        "    model.train_on_batch(x_own[start:start + 4], y_own[start:start + 4])\n"
        f"{WEIGHTS}"
    )
    found = values(session, code)
    assert found[0] == found[1]
    assert np.ravel(found[0][0]) == pytest.approx(one_process(4, 1)[0], rel=1e-4)  # type: ignore[index]


def test_a_loop_of_the_programs_own_is_exchanged_where_it_divides(session: Session) -> None:
    code = MODEL + (
        "import tensorflow as tf\n"
        "own = slice(ddl.rank() * 16, ddl.rank() * 16 + 16)\n"
        "x_own, y_own = x[own], y[own][: 16 * ddl.size()]\n"
        "optimizer = keras.optimizers.SGD(0.1)\n"
        "for start in range(0, 16, 4):\n"
        "    with tf.GradientTape() as tape:\n"
        "        rows = slice(start, start + 4)\n"
        "        loss = tf.reduce_mean((model(x_own[rows]) - y_own[rows]) ** 2)\n"
        "    trained = model.trainable_variables\n"
        "    optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))\n"
        f"{WEIGHTS}"
    )
    found = values(session, code)
    assert found[0] == found[1]
    assert np.ravel(found[0][0]) == pytest.approx(one_process(4, 1)[0], rel=1e-4)  # type: ignore[index]


def test_the_import_alone_is_the_only_necessary_step(session: Session, tmp_path: Path) -> None:
    result = session.run(f"{MODEL}history = model.fit(x, y, batch_size=4, epochs=2, verbose=0)", timeout_s=TIMEOUT_S)
    plan = result.ranks[0].stdout
    assert "Distributed over 2 ranks:" in plan
    assert "import ddl, which distributes as --auto does" in plan
    assert re.search(r"data +32 -> 16 a rank", plan), plan
    assert re.search(r"learning rate +0\.1 -> 0\.2 \(linear\)", plan), plan
    found = values(session, WEIGHTS)
    assert found[0] == found[1]
    # What all ranks call together is done together; the file is rank 0's.
    saved = tmp_path / "model.keras"
    losses = values(session, f"model.save({str(saved)!r})\nmodel.evaluate(x, y, verbose=0)")
    assert losses[0] == losses[1]
    assert saved.is_file()


def test_a_program_that_scales_its_own_rate_keeps_it(session: Session) -> None:
    code = MODEL.replace("SGD(0.1)", "SGD(0.1 * ddl.size())") + "model.fit(x, y, batch_size=4, verbose=0)\n"
    plan = session.run(code, timeout_s=TIMEOUT_S).ranks[0].stdout
    assert "32 -> 16 a rank" in plan
    assert "learning rate" not in plan


def test_the_import_alone_distributes_a_script(tmp_path: Path) -> None:
    program = f"{MODEL}model.fit(x, y, batch_size=4, verbose=0)\nprint('weights', {WEIGHTS})\n"
    (tmp_path / "train.py").write_text(program)
    done = subprocess.run(
        [*COMMAND, "-n", "2", "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "import ddl, which distributes as --auto does" in done.stdout
    assert len(set(re.findall(r"weights (.*)", done.stdout))) == 1


@pytest.mark.parametrize("memory", ["accumulate=2", "shard-optimizer", "accumulate=2,shard-optimizer,remat"])
def test_memory_does_as_under_auto_for_the_import_alone(session: Session, memory: str) -> None:
    code = (
        f"{MODEL.replace('SGD(0.1)', 'Adam(0.1)')}model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)\n"
    )
    session.run(code, timeout_s=TIMEOUT_S)
    without = values(session, WEIGHTS)
    words = parsed(memory)
    plan = session.run(code, timeout_s=TIMEOUT_S, memory=words).ranks[0].stdout
    assert f"memory         {words.plan()}\n" in plan
    found = values(session, WEIGHTS)
    assert found[0] == found[1]
    assert [np.ravel(one) for one in found[0]] == [  # type: ignore[attr-defined]
        pytest.approx(np.ravel(one), rel=1e-5)
        for one in without[0]  # type: ignore[attr-defined]
    ]


def test_memory_keeps_the_weights_of_a_program_that_divides_its_data(session: Session) -> None:
    words = parsed("accumulate=2,shard-optimizer")
    session.run(f"{MODEL}{DIVIDED}", timeout_s=TIMEOUT_S, memory=words)
    found = values(session, WEIGHTS)
    assert found[0] == found[1]
    assert np.ravel(found[0][0]) == pytest.approx(one_process(4, 3)[0], rel=1e-4)  # type: ignore[index]


def test_values_go_from_rank_to_rank(session: Session) -> None:
    code = (
        "import ddl, numpy as np\n"
        "ddl.init('-mode r:2')\n"
        "sums = ddl.all_reduce_n([np.float32(ddl.rank()), None, np.ones(2, 'f')], op='sum')\n"
        "ddl.barrier()\n"
        "(int(ddl.bcast(ddl.rank() + 5)), float(sums[0]), sums[1], sums[2].numpy().tolist(), "
        "float(ddl.allreduce(np.float32(ddl.rank()))), ddl.local_rank(), ddl.local_size())"
    )
    assert values(session, code) == [(5, 1.0, None, [2.0, 2.0], 0.5, rank, 2) for rank in range(2)]


SESSION_OF_TENSORFLOW_1 = """
import ddl, numpy as np, tensorflow as tf
rank, size = ddl.rank(), ddl.size()
x = np.arange(32, dtype="float32").reshape(16, 2)[rank::size] / 32
y = x.sum(axis=1, keepdims=True)
losses = []
with tf.Graph().as_default():
    image = tf.compat.v1.placeholder(tf.float32, [None, 2])
    label = tf.compat.v1.placeholder(tf.float32, [None, 1])
    line = tf.Variable(tf.random.normal([2, 1]) * (rank + 1))
    loss = tf.reduce_mean((tf.matmul(image, line) - label) ** 2)
    step = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(20):
            session.run(step, {image: x, label: y})
        weights = session.run(line).tolist()
weights
"""


def test_a_session_of_tensorflow_1_trains_in_sync(session: Session) -> None:
    first, second = values(session, SESSION_OF_TENSORFLOW_1)
    assert first == second


def test_a_monitored_session_starts_from_one_ranks_variables(session: Session) -> None:
    code = (
        SESSION_OF_TENSORFLOW_1.replace(
            "with tf.compat.v1.Session() as session:",
            "with tf.compat.v1.train.MonitoredSession(hooks=[ddl.DDLGlobalVariablesHook()]) as session:",
        )
        .replace("        session.run(tf.compat.v1.global_variables_initializer())\n", "")
        .replace("    step = ", "    tf.compat.v1.train.get_or_create_global_step()\n    step = ")
    )
    first, second = values(session, code)
    assert first == second


# --- what is refused ------------------------------------------------------------------------------------------------


def refused(session: Session, code: str, **options: object) -> str:
    """Return what the first failing rank says."""
    with pytest.raises(RankError) as raised:
        session.run(code, timeout_s=TIMEOUT_S, **options)  # type: ignore[arg-type]
    return str(raised.value)


def test_a_loop_whose_data_no_rank_divides_is_refused(session: Session) -> None:
    code = f"{MODEL}model.optimizer.apply([keras.ops.ones((2, 1)), keras.ops.ones((1,))], model.trainable_variables)"
    text = refused(session, code)
    assert "import ddl alone distributes fit and train_on_batch" in text
    assert "Divide the data with ddl.rank() and ddl.size()" in text
    text = refused(session, SESSION_OF_TENSORFLOW_1.replace("rank, size = ddl.rank(), ddl.size()", "rank, size = 0, 1"))
    assert "an update by GradientDescentOptimizer outside of them" in text


def test_auto_does_not_divide_what_the_program_has_divided(session: Session) -> None:
    assert "Drop --auto" in refused(session, f"{MODEL}{DIVIDED}", auto=AutoOptions())


@pytest.mark.slow
def test_ranks_that_are_not_all_cannot_import_it() -> None:
    with jupyter_ddl.start(n=2, name="ibm-ddl-refused") as session:
        assert "a cell on 1 of 2 ranks. Drop -r." in refused(session, "import ddl", ranks=[0])
        assert "--independent. Drop one of the two" in refused(session, "import ddl", independent=True)
        # The refused import has left nothing.
        assert values(session, "import ddl\nddl.size()") == [2, 2]
        with pytest.raises(RankError, match=r"serves of IBM's ddl: DDLCallback.*Received: ddl.mdr"):
            session.run("ddl.mdr")
        with pytest.raises(RankError, match="averages or sums"):
            session.run("ddl.allreduce(1.0, op='max')")


def test_a_module_of_the_programs_own_wins_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "ddl.py").write_text("answer = 42\n")
    (tmp_path / "train.py").write_text("import ddl\nprint('answer', ddl.answer)\n")
    done = subprocess.run(
        [*COMMAND, "-n", "2", "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answer 42" in done.stdout
    assert f"NOTE: import ddl gives {tmp_path / 'ddl.py'}" in done.stdout + done.stderr


def test_only_ranks_have_the_module() -> None:
    code = "import jupyter_ddl, importlib.util\nprint(importlib.util.find_spec('ddl'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None\n"


@pytest.mark.slow
def test_ddlrun_runs_a_script_that_looks_for_it(tmp_path: Path) -> None:
    subprocess.run([*COMMAND[:-1], "install-ddlrun", str(tmp_path)], check=True, timeout=60)
    (tmp_path / "train.py").write_text("import os\nprint('options', os.environ['DDL_OPTIONS'])\n")
    done = subprocess.run(
        [tmp_path / "ddlrun", "-n", "2", "--tcp", "python", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "DDL_OPTIONS": "-mode r:2"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[0-1] options -mode r:2" in done.stdout
    assert "NOTE: --tcp has no effect here: MPI chooses the network." in done.stderr
