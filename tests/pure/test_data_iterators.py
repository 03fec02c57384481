"""Iterators over datasets end in a thread of their own."""

import gc
import subprocess
import sys
import threading

import pytest
import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from jupyter_ddl.host import patching
from jupyter_ddl.pipelines import iterators

WAIT_S = 60


@pytest.fixture(autouse=True)
def installed():
    iterators.install(tf)


def held_up():
    """Return an iterator whose second element waits, what lets it go on, and what says that its end has come."""
    goes_on, ended = threading.Event(), threading.Event()

    def numbers():
        try:
            yield 0
            goes_on.wait(WAIT_S)
            yield 1
        finally:
            ended.set()

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    return iter(dataset.prefetch(1)), goes_on, ended


def test_dropping_an_iterator_does_not_wait_for_an_element() -> None:
    iterator, goes_on, ended = held_up()
    assert int(next(iterator)) == 0
    # TensorFlow alone would wait here, for the element that nobody lets go on.
    del iterator
    gc.collect()
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(WAIT_S), "it ends all the same"


def test_one_that_cannot_end_holds_up_no_other() -> None:
    stuck, stuck_goes_on, stuck_ended = held_up()
    other, other_goes_on, other_ended = held_up()
    next(stuck), next(other)
    other_goes_on.set()
    del stuck
    del other
    assert other_ended.wait(WAIT_S / 2)
    assert not stuck_ended.is_set()
    stuck_goes_on.set()
    assert stuck_ended.wait(WAIT_S)


def test_iterators_work_as_before() -> None:
    dataset = tf.data.Dataset.range(5).map(lambda i: i * 2).batch(2)
    first, second = iter(dataset), iter(dataset)
    assert next(first).numpy().tolist() == [0, 2]
    del first
    assert [batch.numpy().tolist() for batch in second] == [[0, 2], [4, 6], [8]]
    assert list(dataset.unbatch().as_numpy_iterator()) == [0, 2, 4, 6, 8]

    def total(values: tf.data.Dataset) -> tf.Tensor:
        iterator = iter(values)
        return next(iterator) + next(iterator)

    assert tf.autograph.experimental.do_not_convert(total)(dataset.unbatch()).numpy() == 2
    in_a_graph = tf.function(total, autograph=False)
    assert int(in_a_graph(dataset.unbatch())) == 2


def test_an_iterator_that_was_never_made_is_dropped_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="dataset"):
        type(iter(tf.data.Dataset.range(1)))()
    gc.collect()
    assert "Exception ignored" not in capfd.readouterr().err


def test_python_ends_while_iterators_live() -> None:
    code = (
        "import tensorflow as tf\nfrom jupyter_ddl.pipelines import iterators\niterators.install(tf)\n"
        "kept = iter(tf.data.Dataset.range(10**9).prefetch(1)); next(kept)\nprint('done')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_one_dropped_while_a_function_is_traced_ends_too() -> None:
    iterator, goes_on, ended = held_up()
    next(iterator)
    kept = [iterator]
    del iterator

    @tf.function
    def traced(x: tf.Tensor) -> tf.Tensor:
        kept.clear()
        return x + 1

    assert int(traced(1)) == 2
    assert {operation.type for operation in traced.get_concrete_function(1).graph.get_operations()}.isdisjoint(
        {"FIFOQueueV2", "QueueEnqueueV2"}
    )
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(WAIT_S)


def test_iterators_that_end_in_another_way_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(_iterator: OwnedIterator) -> None:
        """End."""

    # Others of this process stay: what makes datasets is remembered by patches, too.
    for one in patching.patches():
        if one.owner is OwnedIterator:
            assert one.undo()
    assert not hasattr(OwnedIterator, "__del__")
    monkeypatch.setattr(OwnedIterator, "__del__", own, raising=False)
    iterators.install(tf)
    assert OwnedIterator.__del__ is own
