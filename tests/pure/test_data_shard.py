"""Shards of pipelines: together they hold what one process gets, and none does another's work."""

from __future__ import annotations

import inspect
import os
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from data_pipelines import PIPELINES, decode, double, generated, numbers, samples, write_records

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines import lineage
from jupyter_ddl.pipelines.lineage import recipe_of
from jupyter_ddl.pipelines.shard import shard, shard_with_note

if TYPE_CHECKING:
    from pathlib import Path

lineage.install()

WORLDS = (1, 2, 3, 4, 7)
# Those whose shards differ by one element at most.
BALANCED = ("as it is", "the usual", "a generator", "batched, then unbatched", "zipped", "concatenated", "taken")


def shards(dataset: Any, n: int) -> list[Any]:
    """Return all shards, each as its rank would make it: from the same random state."""
    made = []
    for index in range(n):
        tf.random.set_seed(11)
        made.append(shard(dataset, n, index))
    return made


def how(dataset: Any, n: int = 2) -> str:
    return shard_with_note(dataset, n, 0).how


# Several elements for each of seven shards, and fewer than one for each of four.
@pytest.mark.parametrize(("size", "worlds"), [(23, WORLDS), (3, (4,))])
@pytest.mark.parametrize("name", PIPELINES)
def test_no_sample_twice_and_none_left_out(name: str, size: int, worlds: tuple[int, ...], tmp_path: Path) -> None:
    # With it, a seed of one's own gives another order than without.
    tf.random.set_seed(11)
    whole = sorted(samples(PIPELINES[name](tmp_path, size)))
    assert whole
    for n in worlds:
        # In its first epoch: what is taken of an order is another in the next.
        dataset = PIPELINES[name](tmp_path, size)
        parts = [samples(part) for part in shards(dataset, n)]
        assert sorted(value for part in parts for value in part) == whole, f"{n} shards"
        if name in BALANCED:
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_no_rank_maps_what_is_another_s() -> None:
    mapped: list[int] = []

    def note(value: Any) -> Any:
        mapped.append(int(value))
        return value

    dataset = numbers(12).map(lambda i: tf.ensure_shape(tf.numpy_function(note, [i], tf.int64), [])).cache()
    part = shard(dataset.shuffle(12).batch(2), 3, 1)
    first, second = samples(part), samples(part)
    assert sorted(first) == sorted(second) == sorted(mapped) == [1, 4, 7, 10], "cached after the first epoch"


def test_batches_seeds_and_options_are_the_user_s() -> None:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    dataset = numbers(40).shuffle(40, seed=9).batch(6, drop_remainder=True).with_options(options)
    part = shard(dataset, 2, 0)
    assert part.options().threading.private_threadpool_size == 3
    assert part.element_spec == dataset.element_spec
    # Of its own elements it makes the order that one process would make of them.
    alone = numbers(40).shard(2, 0).shuffle(40, seed=9).batch(6, drop_remainder=True)
    first = [batch.tolist() for batch in part.as_numpy_iterator()]
    assert first == [batch.tolist() for batch in alone.as_numpy_iterator()]
    assert [len(batch) for batch in first] == [6, 6, 6]


def test_each_epoch_shuffles_differently_and_a_rerun_alike() -> None:
    def epochs() -> list[list[int]]:
        tf.random.set_seed(5)
        part = shard(numbers(20).shuffle(20).batch(4), 2, 1)
        return [samples(part) for _ in range(3)]

    first = epochs()
    assert first[0] != first[1] != first[2] != first[0]
    assert {tuple(sorted(epoch)) for epoch in first} == {tuple(range(1, 20, 2))}
    assert epochs() == first


def test_zipped_things_stay_together() -> None:
    images, labels = numbers(21).map(double), numbers(21).cache()
    part = shard(tf.data.Dataset.zip((images, labels)).shuffle(21).batch(4), 4, 3)
    pairs = [pair for x, y in part.as_numpy_iterator() for pair in zip(x, y, strict=True)]
    assert sorted(pairs) == [(2 * label, label) for label in range(3, 21, 4)]


def test_an_endless_pipeline_goes_on_with_its_own_shard() -> None:
    part = shard(numbers(6).shuffle(6).repeat().batch(3), 2, 0)
    assert sorted(samples(part.take(4))) == sorted([0, 2, 4] * 4)
    # Fewer than the ranks: none goes without.
    tiny = [shard(numbers(2).repeat().batch(2), 3, index) for index in range(3)]
    assert [samples(part.take(1)) for part in tiny] == [[0, 1], [1, 0], [0, 1]]


def test_endless_datasets_are_mixed_of_their_parts() -> None:
    rare, common = numbers(4).repeat(), numbers(100).skip(50).repeat()
    part = shard(tf.data.Dataset.sample_from_datasets([rare, common], [0.5, 0.5], stop_on_empty_dataset=True), 2, 1)
    found = set(samples(part.take(200)))
    assert found & set(range(4)) == {1, 3}
    assert found - {1, 3} <= set(range(51, 100, 2))


# --- where the shard is taken --------------------------------------------------------------------------------------


def test_how_says_where(tmp_path: Path) -> None:
    files = write_records(tmp_path, 30)
    names = tf.data.Dataset.from_tensor_slices(files)
    assert how(numbers(9)) == "by element"
    assert how(numbers(9).shuffle(3).map(double).batch(2)) == "by element, before shuffle and map"
    assert how(numbers(9).map(double).cache().shuffle(3)) == "by element, before map, cache and shuffle"
    assert how(numbers(9).take(5).map(double)) == "by element, after take, before map"
    assert how(numbers(9).batch(2).take(3).cache()) == "by batch, after take, before cache"
    assert how(tf.data.TFRecordDataset(files).map(decode).batch(2), n=3) == "by file (9 files)"
    assert how(tf.data.TFRecordDataset(files).map(decode)) == "by file (9 files, 4 or 5 a rank)"
    assert how(tf.data.TFRecordDataset(files[:1]).map(decode)) == "by element, before map"
    assert how(names.interleave(tf.data.TFRecordDataset), n=3) == "by file (9 files)"
    assert how(names.take(2).interleave(tf.data.TFRecordDataset), n=3) == "by element, after interleave"
    assert how(numbers(9), n=1) == "whole"


def test_only_an_order_below_the_shard_must_be_alike() -> None:
    seeded = numbers(9).shuffle(9, seed=1)
    assert not shard_with_note(seeded.batch(2), 2, 0).needs_like_order
    assert shard_with_note(seeded.take(5), 2, 0).needs_like_order
    assert shard_with_note(generated(9), 2, 0).needs_like_order, "nobody knows what it draws"
    assert shard_with_note(seeded.take(5), 2, 0).unseeded == ()
    assert shard_with_note(numbers(9).shuffle(9).take(5), 2, 0).unseeded == ("shuffle",)


def test_what_is_below_the_shard_comes_in_the_same_order_on_all_ranks() -> None:
    options = tf.data.Options()
    options.deterministic = False
    dataset = numbers(50).map(double, num_parallel_calls=4).take(20).with_options(options)
    below = recipe_of(recipe_of(shard(dataset, 2, 0)).inputs[0])  # type: ignore[union-attr]
    assert below is not None
    assert below.name == "shard"
    mapping = recipe_of(recipe_of(below.inputs[0]).inputs[0])  # type: ignore[union-attr]
    assert mapping is not None
    assert mapping.argument("deterministic") is True
    above = recipe_of(shard(numbers(50).map(double, num_parallel_calls=4, deterministic=False), 2, 0))
    assert above is not None
    assert above.argument("deterministic") is False, "the user's, where the order is this rank's own matter"


def test_files_are_dealt_by_name(tmp_path: Path) -> None:
    files = write_records(tmp_path, 30, files=4)
    one = samples(shard(tf.data.TFRecordDataset(files).map(decode), 2, 0))
    other = samples(shard(tf.data.TFRecordDataset(files[::-1]).map(decode), 2, 1))
    assert sorted(one + other) == list(range(30)), "two hosts that list a folder in different orders"


def test_a_reader_keeps_its_settings(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.gz" for number in range(4)]
    for number, path in enumerate(files):
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            writer.write(str(number).encode())
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP", num_parallel_reads=2).map(decode)
    assert samples(shard(dataset, 2, 1)) == [1, 3]
    lines = tmp_path / "lines.txt"
    lines.write_text("5\n6\n7\n")
    assert samples(shard(tf.data.TextLineDataset([lines, lines]).map(decode), 2, 0)) == [5, 6, 7]


def test_each_rank_has_its_own_cache_and_snapshot(tmp_path: Path) -> None:
    cached = numbers(9).map(double).cache(str(tmp_path / "cache")).shuffle(9)
    taken = numbers(9).snapshot(str(tmp_path / "snapshot")).take(7)
    for dataset, count in ((cached, 9), (taken, 7)):
        parts = shards(dataset, 2)
        for _ in range(2):
            assert len({value for part in parts for value in samples(part)}) == count
    told = sorted({path.name.partition(".")[0] for path in tmp_path.iterdir()})
    assert told == ["cache-0-of-2", "cache-1-of-2", "snapshot-0-of-2", "snapshot-1-of-2"]


def test_one_cache_in_two_places_of_a_pipeline(tmp_path: Path) -> None:
    cached = numbers(3).cache(str(tmp_path / "cache"))
    dataset = cached.concatenate(cached)
    assert sorted(value for part in shards(dataset, 2) for value in samples(part)) == [0, 0, 1, 1, 2, 2]


# --- what Keras makes ----------------------------------------------------------------------------------------------


def test_images_of_a_folder(tmp_path: Path) -> None:
    import keras

    from jupyter_ddl.datasets import mnist

    (images, labels), _, _ = mnist(download=False)
    for number, (image, label) in enumerate(zip(images[:30], labels[:30] % 2, strict=True)):
        folder = tmp_path / f"class-{label}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.png").write_bytes(tf.io.encode_png(image[..., None]).numpy())
    dataset = keras.utils.image_dataset_from_directory(
        tmp_path, color_mode="grayscale", image_size=(28, 28), batch_size=4, seed=1, verbose=False
    )
    assert how(dataset, n=3) == "by element, before shuffle and map"
    found = sorted(
        (image.tobytes(), int(label))
        for part in shards(dataset, 3)
        for batch, labels_of_batch in part.as_numpy_iterator()
        for image, label in zip(batch, labels_of_batch, strict=True)
    )
    wanted = zip(images[:30].astype("float32"), labels[:30] % 2, strict=True)
    assert found == sorted((image.tobytes(), int(label)) for image, label in wanted)


def test_texts_of_a_folder_and_windows_of_a_series(tmp_path: Path) -> None:
    import keras

    for label, count in (("good", 5), ("bad", 6)):
        (tmp_path / label).mkdir()
        for number in range(count):
            (tmp_path / label / f"{number}.txt").write_text(f"{label} {number}")
    texts = keras.utils.text_dataset_from_directory(tmp_path, batch_size=2, seed=1, verbose=False)
    read = [text for part in shards(texts, 3) for batch, _ in part.as_numpy_iterator() for text in batch]
    assert sorted(read) == sorted(f"{path.parent.name} {path.stem}".encode() for path in tmp_path.glob("*/*.txt"))
    series = tf.range(20, dtype=tf.int64).numpy()
    windows = keras.utils.timeseries_dataset_from_array(series, series + 100, 3, shuffle=True, batch_size=4, seed=1)
    pairs = sorted(
        (tuple(window), int(target))
        for part in shards(windows, 3)
        for batch, targets in part.as_numpy_iterator()
        for window, target in zip(batch, targets, strict=True)
    )
    assert pairs == [((i, i + 1, i + 2), i + 100) for i in range(18)]


# --- what is refused and what is said ------------------------------------------------------------------------------


def test_a_random_order_of_each_rank_s_own_is_refused() -> None:
    tf.random.set_seed(None)
    with pytest.raises(InvalidInput) as raised:
        shard(numbers(9).shuffle(9).take(5).batch(2), 2, 0)
    assert str(raised.value) == (
        "Ranks that take their parts of one random order must draw the same order. Received: shuffle without a seed, "
        "sharded by element, after take. Pass seed=..., or call keras.utils.set_random_seed with the same number on "
        "all ranks first."
    )


def test_what_is_no_dataset_and_no_shard() -> None:
    with pytest.raises(InvalidInput) as raised:
        shard([1, 2, 3], 2, 0)
    assert str(raised.value) == (
        "shard takes a tf.data.Dataset. Received: list. For arrays, use tf.data.Dataset.from_tensor_slices."
    )
    with pytest.raises(InvalidInput) as raised:
        shard(numbers(3), 2, 2)
    assert str(raised.value) == "Shards are numbered from 0. Received: shard 2 of 2. Pass hvd.size() and hvd.rank()."


def test_a_dataset_of_unknown_making_is_dealt_out_batch_by_batch(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = tf.data.experimental.from_list([tf.constant([i, i + 1]) for i in range(0, 12, 2)])
    assert [samples(part) for part in shards(unknown, 2)] == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]
    told = "Data: sharded by batch: it could not be taken apart. It must give the same order on all ranks.\n"
    assert capsys.readouterr().out == told, "once, by rank 0"
    assert how(unknown.map(double)) == "by batch, before map: it could not be taken apart"
    assert how(unknown.map(double).batch(2)) == "by element, before map"


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_wrapped_methods_look_as_they_did() -> None:
    assert list(inspect.signature(tf.data.Dataset.map).parameters)[:3] == ["self", "map_func", "num_parallel_calls"]
    assert "Maps `map_func`" in str(tf.data.Dataset.map.__doc__)
    before = tf.data.Dataset.map
    lineage.install()
    assert tf.data.Dataset.map is before


def test_autograph_still_reads_the_user_s_functions() -> None:
    def halve(value: Any) -> Any:
        if value % 2 == 0:
            return value // 2
        return value

    @tf.function
    def total() -> Any:
        sum_ = tf.constant(0, tf.int64)
        for value in tf.data.Dataset.range(4).map(halve):
            sum_ += value
        return sum_

    assert int(total()) == 0 + 1 + 1 + 3
    assert samples(shard(numbers(4).map(halve), 2, 0)) == [0, 1]


def test_a_recipe_lives_no_longer_than_its_dataset() -> None:
    dataset = numbers(4).map(double).batch(2)
    gone = weakref.ref(dataset)
    del dataset
    assert gone() is None
    source = recipe_of(numbers(4))
    assert source is not None
    assert source.arguments == {}, "its data would be held twice"


def test_a_file_name_of_any_kind(tmp_path: Path) -> None:
    for name in (tf.constant(os.fspath(tmp_path / "tensor")), os.fspath(tmp_path / "path")):
        part = shard(numbers(4).cache(name), 2, 1)
        assert samples(part) == [1, 3]
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"tensor-1-of-2", "path-1-of-2"}
