"""`--explain`: the data of `fit`, its validation and its weights, of every form."""

from __future__ import annotations

import pytest
from explained import ADAM, DATASET, FIT, TF, flat, lines, rows

# The statements before fit, what fit is given, and what a rank gives it with per-rank batches.
DATA = {
    "arrays": ("", "x, y, 64", "jupyter_ddl.data.parts(x, y, batch_size=64 * hvd.size()),"),
    "arrays by name": (
        "",
        "y=y, x=x, sample_weight=w, batch_size=a + b, shuffle=False",
        "jupyter_ddl.data.parts(x, y, sample_weight=w, batch_size=(a + b) * hvd.size(), shuffle=False),",
    ),
    "several inputs": ("", "[a, b], y", "jupyter_ddl.data.parts([a, b], y, batch_size=32 * hvd.size()),"),
    "arrays and steps": (
        "",
        "x, y, steps_per_epoch=7",
        "jupyter_ddl.data.parts(x, y, batch_size=(-(-len(x) // 7)) * hvd.size()),",
    ),
    "an array alone": ("x = np.ones((4, 2)) / 2", "x", "jupyter_ddl.data.parts(x, batch_size=32 * hvd.size()),"),
    "a dataset": (f"ds = {DATASET}\nds = ds.shuffle(9).batch(16)", "ds", "jupyter_ddl.data.shard(ds),"),
    "a dataset in the call": ("", f"{DATASET}.batch(16)", f"jupyter_ddl.data.shard({DATASET}.batch(16)),"),
    "of a directory": (
        "ds, val = keras.utils.image_dataset_from_directory('a', subset='both')",
        "ds",
        "jupyter_ddl.data.shard(ds),",
    ),
    "of a function": (
        f"def made():\n    whole = {DATASET}\n    return whole.batch(2)\nds = made()",
        "ds",
        "jupyter_ddl.data.shard(ds),",
    ),
    "a PyDataset": ("class Mine(keras.utils.PyDataset):\n    pass\nmine = Mine()", "mine", "EveryNth(mine),"),
    "a generator": (
        "def endless():\n    while True:\n        yield 1, 2\n",
        "endless()",
        "(batch for batch in itertools.islice(endless(), hvd.rank(), None, hvd.size())),",
    ),
}


@pytest.mark.parametrize("kind", DATA)
def test_data(kind: str) -> None:
    before, given, mine = DATA[kind]
    assert mine in flat(f"{TF}{ADAM}{before}\nmodel.fit({given})\n")


def test_data_whose_batches_are_of_all_ranks() -> None:
    options = {"batch": "global"}
    assert "jupyter_ddl.data.parts(x, y, batch_size=64, keeps_order=True)," in lines(
        ADAM + "model.fit(x, y, 64)\n", **options
    )
    assert "jupyter_ddl.data.parts(ds, shuffle=False)," in lines(ADAM + "model.fit(ds)\n", **options)
    assert "learning rate" not in rows(ADAM + FIT, **options)
    assert rows(ADAM + "model.fit(x, y, 60)\n", **options)["batch"] == "15 a rank, 60 in all"
    code = TF + ADAM + f"model.fit({DATASET}.batch(n), steps_per_epoch=5)\n"
    assert "steps_per_epoch=5," in lines(code, **options)
    assert "steps" not in rows(code, **options)
    assert rows(code, **options)["batch"] == "its size (known when it runs) is that of all ranks together"


def test_the_plan_says_what_only_running_tells() -> None:
    code = TF + ADAM + f"model.fit({DATASET}.batch(n))\n"
    assert rows(code)["data"] == (
        f"{DATASET}.batch(n): each rank reads 1 of 4 shards, of files or of elements; how many samples is known when "
        "it runs"
    )
    assert rows(code)["batch"] == "its size (known when it runs) is that of each rank"
    assert rows(ADAM + "model.fit(x, y, n)\n")["batch"] == "n (known when it runs) is that of each rank"
    code = TF + ADAM + f"size = 8\nmodel.fit({DATASET}.repeat().batch(size).prefetch(1), steps_per_epoch=10)\n"
    assert rows(code)["batch"] == "8 a rank, 32 in all"
    assert rows(code)["steps"] == "10 -> 3 an epoch"
    assert "steps_per_epoch=-(-10 // hvd.size())," in lines(code)


def test_validation() -> None:
    part = "validation_data=jupyter_ddl.data.parts(a, b, batch_size=32 * hvd.size(), shuffle=False)"
    assert part in flat(ADAM + "model.fit(x, y, validation_data=(a, b))\n")
    part = "validation_data=jupyter_ddl.data.parts(val, shuffle=False),"
    assert part in lines(f"{TF}{ADAM}val = {DATASET}.batch(9)\nmodel.fit(x, y, validation_data=val)\n")
    assert "validation_data=val," in lines(ADAM + "model.fit(x, y, validation_data=val)\n")
    whole = lines(ADAM + "model.fit(x, y, validation_data=(a, b), validation_steps=2)\n")
    assert "validation_data=(a, b)," in whole
    assert "validation_steps=2," in whole


def test_validation_split_keeps_the_last_part() -> None:
    program = flat(ADAM + "def train():\n    return model.fit(x, [a, b], 8, validation_split=0.25)\n")
    assert "validation_begins = int(len(x) * (1 - 0.25)) return model.fit(" in program
    first = "x[:validation_begins], [a[:validation_begins], b[:validation_begins]]"
    assert f"jupyter_ddl.data.parts({first}, batch_size=8 * hvd.size())" in program
    last = "x[validation_begins:], [a[validation_begins:], b[validation_begins:]]"
    assert f"validation_data=jupyter_ddl.data.parts({last}, batch_size=8 * hvd.size(), shuffle=False)" in program


@pytest.mark.parametrize("data", ["inputs = [a, b]\n", "inputs = {'a': a, 'b': b}\n"])
def test_validation_split_of_several_inputs_by_one_name(data: str) -> None:
    program = flat(ADAM + data + "model.fit(inputs, {'c': c}, validation_split=0.1)\n")
    assert "validation_begins = int(len(keras.tree.flatten(inputs)[0]) * (1 - 0.1))" in program
    rows_of = "keras.tree.map_structure(lambda rows: rows[{}], {})".format
    first, last, target = ":validation_begins", "validation_begins:", "{'c': c}"
    assert f"parts({rows_of(first, 'inputs')}, {rows_of(first, target)}, batch" in program
    assert f"parts({rows_of(last, 'inputs')}, " in program


def test_class_weight_becomes_weights_of_samples() -> None:
    program = flat(ADAM + "model.fit(x, y, class_weight={0: 1, 1: 3})\n")
    assert "sample_weight=weights_of(y, {0: 1, 1: 3})" in program
    assert "def weights_of(y, class_weight):" in program
    assert "import numpy as np" in program
