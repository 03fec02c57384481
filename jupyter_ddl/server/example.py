"""Answers the request for a small notebook that trains on two ranks, on any machine, in less than a minute."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_ddl.server.requests import HubHandler

_CELLS = (
    (
        "markdown",
        """\
# Distributed training

This notebook trains one model on two *ranks*: two processes that share the work and keep the same weights. Run its
cells one after another with Shift+Enter; all of it takes less than a minute.

The two ranks start on this machine's processor, so that it runs anywhere. Without `-n 2 --gpus none` there is one rank
per GPU.""",
    ),
    ("code", "%load_ext jupyter_ddl\n%ddl start -n 2 --gpus none --name example"),
    (
        "markdown",
        """\
A cell that begins with `%%distributed` runs on every rank. The button with four squares in the toolbar puts that line
there, and the choice beside it has the whole notebook run there.""",
    ),
    ("code", '%%distributed\nprint(f"I am rank {rank} of {world_size}.")'),
    (
        "markdown",
        """\
This is a Keras program for one process. `--auto` distributes it: each rank trains on its half of the points, and they
average their gradients. The dashboard below the cell shows how fast, and the *Distributed* panel on the left lists the
run.""",
    ),
    (
        "code",
        """\
%%distributed --auto
import keras
from jupyter_ddl.datasets import spirals

x, y = spirals()
model = keras.Sequential([
    keras.layers.Dense(64, "relu"),
    keras.layers.Dense(64, "relu"),
    keras.layers.Dense(1, "sigmoid"),
])
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, batch_size=64, epochs=8, verbose=2)""",
    ),
    (
        "markdown",
        """\
What the cell defined stays on the ranks: `%ddl pull` brings a rank's value here. Then stop the ranks, or train
on data of your own.""",
    ),
    ("code", "%%distributed -r 0\naccuracy = model.evaluate(x, y, verbose=0)[1]"),
    ("code", '%ddl pull accuracy -r 0\nprint(f"{accuracy:.0%} of the points are on the right spiral.")'),
    ("code", "%ddl stop"),
)


def notebook() -> dict[str, Any]:
    """Return the notebook, as its file has it."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [_cell(f"example-{number}", kind, source) for number, (kind, source) in enumerate(_CELLS)],
    }


def _cell(name: str, kind: str, source: str) -> dict[str, Any]:
    cell = {"id": name, "cell_type": kind, "metadata": {}, "source": source}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


class ExampleHandler(HubHandler):
    """GET example -> a notebook."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the notebook."""
        self.answer(notebook())
