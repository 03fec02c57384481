"""`keras.datasets` on a rank: local copies first, one download, and a sentence that says what to do without either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("datasets_program.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("datasets")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(PROGRAM.parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return answers


def test_neither_a_copy_nor_a_network(found: dict[str, Any]) -> None:
    told = found["neither copy nor network"]
    assert told.startswith(
        "A data set must be on this machine, or within reach of its network. Received: no mnist.npz in "
        "$JUPYTER_DDL_DATA (not set), none in Keras's cache, and no answer from https://storage.googleapis.com/"
    ), told
    assert told.endswith(
        "Put mnist.npz in a folder and set JUPYTER_DDL_DATA to that, or load it once where there is a network."
    )
    assert "Put cifar-10-python.tar.gz in a folder" in found["nor an archive"]
    assert "Put fashion-mnist/train-labels-idx1-ubyte.gz in a folder" in found["MNIST is not Fashion-MNIST"]


def test_the_user_s_folder_comes_first(found: dict[str, Any]) -> None:
    eighteen_and_two = [[18, 28, 28], [18], [2, 28, 28], [2]]
    assert found["IDX files"] == eighteen_and_two
    assert found["a name for each rank"] == eighteen_and_two
    assert found["Fashion-MNIST"] == [[7, 28, 28], [7], [3, 28, 28], [3]]
    assert found["a smaller mnist.npz"] == [[5, 28, 28], [5], [2, 28, 28], [2]]
    assert found["an archive of the user's"] == "red"


def test_a_file_is_downloaded_once_whatever_name_each_rank_gives_it(found: dict[str, Any]) -> None:
    assert found["an archive"] == "red"
    assert found["a file"] == "flowers.tar.gz"
    assert found["without the network"] == [True, "flowers.tar.gz"]
    # The archive for its folder, and the file as such.
    assert found["requests"] == ["/flowers.tar.gz", "/flowers.tar.gz"]
