"""Explains programs for four ranks, for the tests of `--explain`."""

from __future__ import annotations

import ast
from typing import Any

from jupyter_ddl.explain import Explanation, explain

KERAS = "import keras\nkeras.utils.set_random_seed(1)\nmodel = keras.Sequential([keras.layers.Dense(1)])\n"
ADAM = KERAS + "model.compile('adam', 'mse')\n"
FIT = "model.fit(x, y)\n"


def written(code: str, **options: Any) -> Explanation:
    explanation = explain(code, world_size=4, **options)
    ast.parse(explanation.program)
    return explanation


def rows(code: str, **options: Any) -> dict[str, str]:
    """Return the plan by the names of its rows."""
    head, *lines = written(code, **options).plan
    assert head == "Distributed over 4 ranks:"
    return {line[2:16].strip(): line[17:] for line in lines}


def lines(code: str, **options: Any) -> list[str]:
    """Return the lines of the program, without indentation and comments of their own."""
    program = written(code, **options).program
    return [line.strip() for line in program.splitlines() if line.strip() and not line.strip().startswith("#")]


def flat(code: str, **options: Any) -> str:
    """Return the program in one line, each call written in one line."""
    text = " ".join(lines(code, **options))
    return text.replace("( ", "(").replace(", )", ")").replace("[ ", "[").replace(", ]", "]")


# --- data ------------------------------------------------------------------------------------------------------

TF = "import tensorflow as tf\n"
DATASET = "tf.data.Dataset.from_tensor_slices((x, y))"
