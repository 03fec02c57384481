"""Pipelines of every shape, of the numbers 0, 1, 2, ...: their shards must hold together what one process gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = 9


def numbers(n: int) -> Any:
    return tf.data.Dataset.from_tensor_slices(tf.range(n, dtype=tf.int64))


def generated(n: int) -> Any:
    return tf.data.Dataset.from_generator(lambda: range(n), output_signature=tf.TensorSpec([], tf.int64))


def write_records(folder: Path, n: int, files: int = FILES) -> list[str]:
    """Write the numbers to files, in turn."""
    paths = [str(folder / f"part-{number}.tfrecord") for number in range(files)]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for value in range(number, n, files):
                writer.write(str(value).encode())
    return paths


def decode(record: Any) -> Any:
    return tf.strings.to_number(record, tf.int64)


def records(folder: Path, n: int) -> Any:
    return tf.data.TFRecordDataset(write_records(folder, n)).map(decode)


def listed(folder: Path, n: int) -> Any:
    write_records(folder, n)
    files = tf.data.Dataset.list_files(f"{folder}/*.tfrecord")
    return files.interleave(tf.data.TFRecordDataset, num_parallel_calls=2, deterministic=False).map(decode)


def two_files(folder: Path, n: int) -> Any:
    return tf.data.TFRecordDataset(write_records(folder, n, files=2), num_parallel_reads=2).map(decode)


def windows(folder: Path, n: int) -> Any:
    return numbers(n).window(4).flat_map(lambda window: window.batch(4)).unbatch()


def even(value: Any) -> Any:
    return value % 2 == 0


def double(value: Any) -> Any:
    return value * 2


# Of a folder to write to and of how many numbers, a dataset of numbers or of batches of them.
PIPELINES: dict[str, Callable[[Path, int], Any]] = {
    "as it is": lambda folder, n: numbers(n),
    "the usual": lambda folder, n: numbers(n).map(double).cache().shuffle(8, seed=3).batch(4).prefetch(1),
    "shuffle before map": lambda folder, n: numbers(n).shuffle(8).map(double, num_parallel_calls=2).batch(4),
    "filter": lambda folder, n: numbers(n).filter(even).batch(4),
    "a generator": lambda folder, n: generated(n).map(double).batch(4),
    "batched, then unbatched": lambda folder, n: generated(n).batch(4).map(double).unbatch().batch(3),
    "batches shuffled": lambda folder, n: numbers(n).batch(4).shuffle(9, seed=1),
    "padded": lambda folder, n: numbers(n).map(lambda i: tf.fill([1], i)).padded_batch(4).unbatch(),
    "repeated": lambda folder, n: numbers(n).shuffle(8).repeat(2).batch(4),
    "zipped": lambda folder, n: tf.data.Dataset.zip(numbers(n), numbers(n).map(double)).map(lambda a, b: a + b),
    "zipped orders": lambda folder, n: tf.data.Dataset.zip(
        (numbers(n).shuffle(8, seed=5), numbers(n + 2).shuffle(8, seed=5))
    ).map(lambda a, b: a + 1000 * b),
    "zipped with one thing": lambda folder, n: tf.data.Dataset.zip(
        tf.data.Dataset.from_tensors(tf.constant(7, tf.int64)).repeat(), numbers(n)
    ).map(lambda a, b: a + b),
    "concatenated": lambda folder, n: numbers(n).concatenate(numbers(n + 1).map(double)).batch(4),
    "mixed": lambda folder, n: tf.data.Dataset.sample_from_datasets([numbers(n), numbers(n).map(double)], seed=2),
    "chosen": lambda folder, n: tf.data.Dataset.choose_from_datasets(
        [numbers(n), numbers(n).map(double)], tf.data.Dataset.range(2).repeat(n)
    ),
    "taken": lambda folder, n: numbers(n).shuffle(30, seed=4).take(11).map(double).batch(4),
    "skipped": lambda folder, n: numbers(n).shuffle(30, seed=4, reshuffle_each_iteration=False).skip(2).batch(4),
    "numbered": lambda folder, n: numbers(n).enumerate(start=100).map(lambda place, value: place * 1000 + value),
    "summed up": lambda folder, n: numbers(n).scan(tf.constant(0, tf.int64), lambda sum_, value: (sum_ + value,) * 2),
    "unique": lambda folder, n: numbers(n).map(lambda i: i // 2).unique().batch(4),
    "while": lambda folder, n: numbers(n).take_while(lambda i: i < 10).map(double),
    "windows": windows,
    "grouped": lambda folder, n: numbers(n).group_by_window(
        lambda i: i % 2, lambda _, window: window.batch(3), window_size=3
    ),
    "asserted": lambda folder, n: numbers(n).apply(tf.data.experimental.assert_cardinality(n)).map(double),
    "asserted filter": lambda folder, n: (
        numbers(n).filter(even).apply(tf.data.experimental.assert_cardinality(len(range(0, n, 2)))).batch(2)
    ),
    "records": records,
    "listed records": listed,
    "records of few files": two_files,
    "names, flat": lambda folder, n: (
        tf.data.Dataset.from_tensor_slices(write_records(folder, n)).flat_map(tf.data.TFRecordDataset).map(decode)
    ),
    "few names": lambda folder, n: (
        tf.data.Dataset.from_tensor_slices(write_records(folder, n, files=2))
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
        .map(decode)
    ),
    "names as a dataset": lambda folder, n: tf.data.TFRecordDataset(
        tf.data.Dataset.from_tensor_slices(write_records(folder, n))
    ).map(decode),
    "of unknown making": lambda folder, n: tf.data.experimental.from_list([tf.constant(i) for i in range(n)]),
}


def samples(dataset: Any) -> list[int]:
    """Return the numbers of one pass, in order."""
    options = tf.data.Options()
    # They take longer than these few elements.
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    dataset = dataset.with_options(options)
    return [int(value) for element in dataset.as_numpy_iterator() for value in element.reshape(-1)]
