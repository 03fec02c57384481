"""A rank that raises deep in other code, ranks that raise different things, and what Horovod refuses."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import TWO_AND_FOUR

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

HVD = "import tensorflow as tf, horovod.tensorflow as hvd, time\nhvd.init()\n"
FIT = (
    "import keras, numpy as np, jupyter_ddl.keras as jk\n"
    "model = keras.Sequential([keras.layers.Dense(1)])\n"
    "model.compile(jk.DistributedOptimizer(keras.optimizers.SGD(0.01)), 'mse')\n"
    "x, y = np.ones((64, 2)), np.ones((64, 1))\n"
)
WHERE = {
    "a callback": FIT
    + (
        "class Mine(keras.callbacks.Callback):\n    def on_train_batch_end(self, batch, logs=None):\n"
        "        if rank == 1 and batch == 2: raise ValueError('no good')\n"
        "model.fit(x, y, batch_size=2, epochs=9999, verbose=0, callbacks=[Mine()])"
    ),
    "tf.data": (
        "def load(i):\n    if rank == 1 and i == 2: raise ValueError('no good')\n    return i\n"
        "for i in tf.data.Dataset.range(9).map(lambda i: tf.py_function(load, [i], tf.int64)):\n"
        "    hvd.allreduce(tf.ones(1))\n"
    ),
    "an import": "if rank == 1: import raises_at_import\nhvd.allreduce(tf.ones(1))",
}


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("n", TWO_AND_FOUR)
@pytest.mark.parametrize("what", WHERE)
def test_its_traceback_and_the_others_in_a_line(
    ranks: Callable[[int], Session], tmp_path: Path, n: int, what: str
) -> None:
    session = ranks(n)
    (tmp_path / "raises_at_import.py").write_text("raise ValueError('no good')\n")
    session.run(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nkept = rank")
    began_s = time.monotonic()
    with pytest.raises(RankError) as caught:
        session.run(HVD + WHERE[what], timeout_s=120)
    print(f"{what}: ended after {time.monotonic() - began_s:.1f} s")
    told = plain(caught.value.report)
    assert "ValueError: no good" in told
    assert [failure.rank for failure in caught.value.failures] == [1]
    others = {2: "Rank 0", 4: "Ranks 0, 2-3"}[n]
    assert told.endswith(f"{others} aborted because rank 1 raised")
    assert session.run("kept").ranks[1].value == "1"


@pytest.mark.slow
def test_different_errors_come_in_the_order_in_which_they_were_raised(ranks: Callable[[int], Session]) -> None:
    session = ranks(4)
    code = (
        "import time\nif rank == 0: time.sleep(60)\ntime.sleep(0.1 * (3 - rank))\n"
        "raise (None, KeyError, OSError, ValueError)[rank](f'of {rank}')"
    )
    with pytest.raises(RankError) as caught:
        session.run(code, timeout_s=60)
    failures = caught.value.failures
    # Which comes first is the machine's; a rank that is late by more than the grace time is released, as rank 0 is.
    assert len({failure.name for failure in failures}) == len(failures) > 1
    assert [failure.at_s for failure in failures] == sorted(failure.at_s for failure in failures)
    headings = re.findall(r"^Ranks? .*$", plain(caught.value.report), re.MULTILINE)
    told = [re.sub(r" on .*", "", heading) for heading in headings]
    assert told[:-1] == [f"Rank {failure.rank} of 4" for failure in failures]
    assert told[-1].endswith(f"aborted because rank {failures[0].rank} raised")


@pytest.mark.parametrize(
    ("code", "text", "gave"),
    [
        (
            "hvd.allreduce(tf.ones(2 + rank % 2))",
            "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape ",
            "allreduce of float32 [{}]",
        ),
        (
            "hvd.allreduce(tf.ones(2, [tf.float64, tf.float32][rank % 2]))",
            "Mismatched data types: One rank had type float",
            "allreduce of float{} [2]",
        ),
    ],
    ids=["shapes", "dtypes"],
)
@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_what_does_not_match_is_told_by_rank(
    ranks: Callable[[int], Session], n: int, code: str, text: str, gave: str
) -> None:
    session = ranks(n)
    session.wait_warm()
    with pytest.raises(RankError) as caught:
        session.run(HVD + code, timeout_s=120)
    told = plain(caught.value.report)
    assert text in told
    assert told.count("Traceback (most recent call last)") == 1
    even, odd = ("2", "3") if "shapes" in text else ("64", "32")
    first, second = ("Rank 0", "Rank 1") if n == 2 else ("Ranks 0, 2", "Ranks 1, 3")
    assert told.endswith(f"\n{first} gave: {gave.format(even)}\n{second} gave: {gave.format(odd)}")
    total = session.run(HVD + "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum))")
    assert total.ranks[0].value == str(float(n))
