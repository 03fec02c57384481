"""`--auto` with Keras 2: refused, and not trained as if each rank were alone."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import slow_but

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

TIMEOUT_S = 240.0
TRAINING = """
{imports}
import numpy as np
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 2), "float32"), np.zeros(8, "float32"), verbose=0)
print("trained")
"""
REMEDY = "Import keras, or tf.keras without TF_USE_LEGACY_KERAS; for Keras 2, write the program with Horovod."
CASES = {
    "asked for by the environment": (
        ["--env", "TF_USE_LEGACY_KERAS=1"],
        "import tensorflow as tf; keras = tf.keras",
        "TF_USE_LEGACY_KERAS, set",
    ),
    "asked for by the program": (
        [],
        "import os; os.environ['TF_USE_LEGACY_KERAS'] = '1'; import tensorflow as tf; keras = tf.keras",
        "tf_keras, imported",
    ),
    "imported": ([], "import tf_keras as keras", "tf_keras, imported"),
}


def run_auto(folder: Path, imports: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(TRAINING.format(imports=imports))
    return subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n2", "--auto", "--no-legacy", *options, "script.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


# An import of Keras 2 is refused by the same words, wherever it comes from.
@pytest.mark.parametrize("case", slow_but({"asked for by the program"}, CASES))
def test_keras_2_is_refused(tmp_path: Path, case: str) -> None:
    options, imports, received = CASES[case]
    ended = run_auto(tmp_path, imports, options)
    assert ended.returncode == 1
    assert "trained" not in ended.stdout
    told = f"jupyter_ddl.errors.InvalidInput: --auto distributes programs of Keras 3. Received: {received}. {REMEDY}"
    assert ended.stderr.count(told) == 1, ended.stderr
