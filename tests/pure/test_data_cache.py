"""A rank's elements kept: where, checked before, and said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from data_pipelines import double, numbers, samples

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines import lineage, storage
from jupyter_ddl.pipelines.cache import cache, measured
from jupyter_ddl.pipelines.owned_folders import PREFIX
from jupyter_ddl.pipelines.prefetch import prefetch
from jupyter_ddl.pipelines.shard import shard

if TYPE_CHECKING:
    from pathlib import Path

lineage.install()


def counted(n: int) -> tuple[Any, list[int]]:
    """Return a dataset of n numbers, and the list of those that it had to make."""
    made: list[int] = []

    def note(value: Any) -> Any:
        made.append(int(value))
        return value

    return numbers(n).map(lambda i: tf.ensure_shape(tf.numpy_function(note, [i], tf.int64), [])), made


@pytest.mark.parametrize("where", ["ram", "folder"])
def test_elements_are_made_once(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, made = counted(6)
    kept = cache(dataset, where if where == "ram" else tmp_path)
    assert made == [0], "the first, to see how large it is"
    assert samples(kept) == samples(kept) == list(range(6))
    assert made == [0, *range(6)]
    told = capsys.readouterr().out
    assert told.startswith(f"Cache in {'memory' if where == 'ram' else tmp_path}, ")
    assert told.endswith("B free: 48 B, for each rank.\n")
    folders = [path for path in tmp_path.iterdir() if path.name.startswith(PREFIX)]
    assert len(folders) == (where == "folder")


def test_each_call_has_a_file_of_its_own(tmp_path: Path) -> None:
    first, second = cache(numbers(3), tmp_path), cache(numbers(3).map(double), tmp_path)
    assert (samples(first), samples(second)) == ([0, 1, 2], [0, 2, 4])


def test_a_sharded_cache_still_goes_to_this_process_s_folder(tmp_path: Path) -> None:
    parts = [shard(cache(numbers(5), tmp_path), 2, index) for index in range(2)]
    assert [samples(part) for part in parts for _ in range(2)] == [[0, 2, 4], [0, 2, 4], [1, 3], [1, 3]]
    assert all(path.name.startswith(PREFIX) for path in tmp_path.iterdir())


def test_the_estimate_is_the_first_element_s_size_times_the_count() -> None:
    images = tf.data.Dataset.from_tensor_slices((tf.zeros([10, 4, 4]), tf.zeros([10], tf.uint8)))
    assert measured(images).total_bytes == 10 * (4 * 4 * 4 + 1)
    assert measured(images.batch(5)).total_bytes == 10 * (4 * 4 * 4 + 1)
    assert measured(tf.data.Dataset.from_tensors(["ab", "c"])).total_bytes == 3
    assert measured(numbers(10).filter(lambda i: i > 1)).total_bytes is None
    assert measured(numbers(0)).total_bytes == 0


def test_a_dataset_that_does_not_know_its_size_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert samples(cache(numbers(4).filter(lambda i: i > 1))) == [2, 3]
    assert capsys.readouterr().out.endswith(" free: 8 B an element, their number is not known, for each rank.\n")


def test_no_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PLACES", {"ramdisk": (str(tmp_path),), "nvme": ("$NOT_SET_HERE",)})
    large = tf.data.Dataset.from_tensors(0).map(lambda _: tf.zeros([10**6])).repeat(10**9)
    for where, text in (
        ("ram", "A cache in memory needs room: 4,000 TB for the ranks of this host."),
        ("ramdisk", "A cache needs room: 4,000 TB for the ranks of this host."),
        ("nvme", "$NOT_SET_HERE is not set"),
    ):
        with pytest.raises(InvalidInput) as raised:
            cache(large, where)
        assert text in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_what_has_no_end_or_no_place() -> None:
    with pytest.raises(InvalidInput) as raised:
        cache(numbers(3).repeat())
    assert str(raised.value) == (
        "A cache holds a whole pass over the data. Received: a dataset without end. Call cache before repeat."
    )
    with pytest.raises(InvalidInput) as raised:
        cache(numbers(3), "disk")
    assert str(raised.value) == (
        'where is "ram", "ramdisk", "nvme" or a folder. Received: \'disk\'. Write a folder here as "./folder".'
    )


def test_prefetch_comes_once() -> None:
    dataset = prefetch(numbers(4))
    assert prefetch(dataset) is dataset
    assert samples(dataset) == [0, 1, 2, 3]
    assert prefetch(dataset.batch(2), buffer=1) is not dataset
