"""Advice on pipelines: what is offered where, that it leaves the samples alone, and that it is measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from data_pipelines import decode, double, numbers, samples, write_records

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines import lineage, speedups
from jupyter_ddl.pipelines.advise import Advice, advise
from jupyter_ddl.pipelines.trials import Gain, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

lineage.install()


def offered(dataset: Any) -> list[str]:
    return [change.name.partition(" (")[0] for change in speedups.possible(dataset)]


def made(dataset: Any, name: str, held: int | None = None) -> Any:
    change = next(change for change in speedups.possible(dataset) if change.name.startswith(name))
    return change.make(dataset, held)


def slowly(value: Any) -> Any:
    """Take half a millisecond."""

    def wait(number: Any) -> Any:
        time.sleep(0.0005)
        return number

    return tf.ensure_shape(tf.numpy_function(wait, [value], tf.int64), [])


def test_what_is_offered(tmp_path: Path) -> None:
    assert offered(numbers(9).batch(2).prefetch(1)) == []
    assert offered(numbers(9).map(double).batch(2)) == [
        "map in parallel",
        "vectorised map",
        "cache in memory",
        "prefetch",
    ]
    assert offered(numbers(9).map(double, num_parallel_calls=2).cache().batch(2).prefetch(1)) == []
    files = write_records(tmp_path, 9)
    assert offered(tf.data.TFRecordDataset(files).batch(2)) == ["files in parallel", "cache in memory", "prefetch"]
    names = tf.data.Dataset.from_tensor_slices(files)
    assert offered(names.interleave(tf.data.TFRecordDataset).batch(2).prefetch(1))[0] == "files in parallel"
    assert offered(names.flat_map(tf.data.TFRecordDataset).batch(2).prefetch(1))[0] == "files in parallel"


@pytest.mark.parametrize("name", ["map in parallel", "vectorised map", "cache", "prefetch"])
def test_a_change_leaves_the_samples_what_they_are(name: str) -> None:
    dataset = numbers(30).shuffle(30, seed=1).map(double).map(lambda i: i + 1).batch(4)
    changed = made(dataset, name)
    assert changed.element_spec == dataset.element_spec
    assert sorted(samples(changed)) == sorted(samples(dataset))


def test_reading_files_in_parallel_reads_the_same(tmp_path: Path) -> None:
    files = write_records(tmp_path, 30)
    names = tf.data.Dataset.from_tensor_slices(files)
    for reading in (
        tf.data.TFRecordDataset(files),
        names.interleave(tf.data.TFRecordDataset),
        names.flat_map(tf.data.TFRecordDataset),
    ):
        assert sorted(samples(made(reading.map(decode).batch(4), "files in parallel"))) == list(range(30))


def test_a_map_takes_batches_only_where_that_gives_the_same() -> None:
    def vectorised(function: Any) -> bool:
        rows = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(60.0), [20, 3]))
        return "vectorised map" in offered(rows.map(function).batch(4))

    assert vectorised(lambda row: row / 7)
    assert not vectorised(lambda row: row - tf.reduce_mean(row)), "of a batch it would be another mean"
    assert not vectorised(lambda row: row + tf.random.uniform([3]))
    assert not vectorised(lambda row: tf.ensure_shape(row, [3]))
    assert not vectorised(lambda row: tf.io.encode_png(tf.cast(row, tf.uint8)[:, None, None]))


def test_maps_take_batches_one_after_another() -> None:
    dataset = numbers(9).map(double).map(lambda i: tf.ensure_shape(i, []) + 1).map(lambda i: i * 3).batch(4)
    assert samples(made(dataset, "vectorised map")) == samples(dataset)
    both = made(numbers(9).map(double).map(lambda i: i + 1).repeat(2).batch(4), "vectorised map")
    assert samples(both) == [i * 2 + 1 for i in [*range(9), *range(9)]]


@pytest.mark.parametrize("seed", [None, 11])
def test_a_cache_goes_above_what_is_the_same_in_each_epoch(seed: int | None) -> None:
    # With a seed, the random numbers of a map are the same in each pass: by place, and not by element.
    tf.random.set_seed(seed)
    seen: list[int] = []

    def note(value: Any) -> Any:
        seen.append(int(value))
        return value

    rows = numbers(8).shuffle(8, seed=2).map(lambda i: tf.ensure_shape(tf.numpy_function(note, [i], tf.int64), []))
    augmented = rows.map(lambda i: i * 1000 + tf.random.uniform([], maxval=1000, dtype=tf.int64)).batch(4)
    cached = made(augmented, "cache")
    seen.clear()
    first, second = samples(cached), samples(cached)
    assert sorted(seen) == list(range(8)), "made once"
    assert sorted(value // 1000 for value in first) == list(range(8))
    assert sorted(first) != sorted(second), "augmented anew in each epoch"
    assert [value // 1000 for value in first] != [value // 1000 for value in second], "and shuffled anew"


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    yield
    tf.random.set_seed(None)


def test_where_a_cache_goes_is_said_by_the_function_s_name() -> None:
    offers = speedups.possible(numbers(8).map(double).shuffle(8).batch(4))
    cache = next(change for change in offers if "cache" in change.name)
    assert cache.name == "cache in memory (64 B)"
    assert cache.code == 'jupyter_ddl.data.cache(..., "ram") after map(double)'


def test_advice_is_measured() -> None:
    pipeline = numbers(200).map(slowly).batch(8)
    advice = advise(pipeline, seconds=1.0)
    assert advice.rows[0].code == 'jupyter_ddl.data.cache(..., "ram") after batch'
    helpful = [row for row in advice.rows if row.helps]
    assert helpful[0].change == "cache in memory (1.6 kB)", advice
    assert helpful[0].gain > 2
    assert advice.batches_per_s < 1 / (8 * 0.0005), "no faster than the map can be"
    assert {row.change for row in advice.rows} >= {"map in parallel", "prefetch"}
    assert sorted(samples(advice.dataset)) == list(range(200)), "all, and not what was held to measure"


def test_a_slow_model_needs_no_faster_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    import keras

    class Slow(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(lambda v: time.sleep(0.2) or v, [x], tf.float32), x.shape)

    model = keras.Sequential([keras.Input([2]), Slow(), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    before = [variable.numpy() for variable in model.variables]
    rows = tf.data.Dataset.from_tensor_slices((np.ones([64, 2], "float32"), np.ones([64, 1], "float32")))
    advice = advise(rows.map(lambda x, y: (x * 2, y)).batch(8), model, seconds=2)
    assert advice.model_is_the_bottleneck
    assert advice.rows == ()
    assert advice.model_batches_per_s is not None
    assert advice.model_batches_per_s < 1 / 0.2
    assert capsys.readouterr().out.endswith("The model is the bottleneck: nothing in the pipeline would help.\n")
    after = [variable.numpy() for variable in model.variables]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_the_table() -> None:
    rows = (
        Row("cache in memory (3 MB)", "cache(...)", 4.0, 410.0, helps=True, helps_alone=True),
        Row("map in parallel", "map(...)", 6.0, 590.0, helps=True, helps_alone=True),
        Row("vectorised map", "batch before map", 1.5, 150.0, helps=False, helps_alone=True),
        Row("files in parallel", "interleave(...)", 1.3, 130.0, helps=False),
        Row("prefetch", "prefetch(...)", 0.98, 98.0, helps=False),
    )
    assert str(Advice(rows, 100.0, 2000.0, None)).splitlines() == [
        "                           batches/s",
        "the pipeline as it is            100   with the model",
        "the model alone                2,000",
        "1. cache in memory (3 MB)        410   4.00 x   cache(...)",
        "2. map in parallel               590   6.00 x   map(...)",
        "Do these in this order.",
        "Of help alone, but not besides: vectorised map (1.50 x).",
        "Faster in some rounds only: files in parallel (1.30 x).",
        "No help: prefetch (0.98 x).",
    ]
    assert str(Advice(rows[4:], 100.0, None, None)).splitlines() == [
        "                       batches/s",
        "the pipeline as it is        100   alone",
        "Nothing that was tried helps for certain.",
        "No help: prefetch (0.98 x).",
    ]


def test_a_gain_is_real_where_no_round_says_otherwise() -> None:
    assert Gain.of([12, 11, 13], [10, 10, 10]) == Gain(1.2, is_real=True, batches_per_s=12)
    assert not Gain.of([20, 9, 30], [10, 10, 10]).is_real
    assert not Gain.of([10.3, 10.2, 10.4], [10, 10, 10]).is_real
    # A machine that was slow for one round was so for both.
    assert Gain.of([12, 1.2, 12], [10, 1, 10]).is_real


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1, 2],), "advise takes a tf.data.Dataset. Received: list. Pass what fit is given as x."),
        ((numbers(0),), "advise measures batches. Received: an empty dataset. Pass one that has elements."),
        ((numbers(3), None, 0), "advise needs time to measure. Received: seconds=0. Pass e.g. seconds=20."),
        (
            (numbers(3), object()),
            "advise trains with the model, to time it. Received: a model without a loss. Compile it first.",
        ),
    ],
)
def test_what_cannot_be_measured(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        advise(*arguments)
    assert str(raised.value) == text
