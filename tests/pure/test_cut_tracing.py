"""A tf.function whose first call was cut short: the next call traces anew, and computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.training import interrupted_tracing

if TYPE_CHECKING:
    from collections.abc import Callable

tf = pytest.importorskip("tensorflow")
CUTS = [KeyboardInterrupt, ValueError, SystemExit]
# A context manager that is never left; collected, it would leave its graph by itself.
kept: list[Any] = []


@pytest.fixture(autouse=True)
def installed() -> None:
    interrupted_tracing.install(tf)


class Program:
    """What a program does in its own tf.function: makes variables in the first call, and is cut after that, or before.

    Args:
        cut: raised in the first call.
        after: whether the variables exist by then.
    """

    def __init__(self, cut: type[BaseException], *, after: bool) -> None:
        self.cut: type[BaseException] | None = cut
        self.after = after
        self.weight: Any = None
        self.step = tf.function(self._step)

    def _step(self, x: Any) -> Any:
        self._raise(not self.after)
        if self.weight is None:
            self.weight = tf.Variable(lambda: tf.random.stateless_uniform([3], (1, 2)) + x0())
        self._raise(self.after)
        return self.weight.assign_add(tf.fill([3], x)) * 1.0

    def _raise(self, here: bool) -> None:
        if here and self.cut is not None:
            cut, self.cut = self.cut, None
            raise cut("cut")


def x0() -> float:
    return 10.0


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_the_next_call_computes(cut: type[BaseException], after: bool, nested: bool) -> None:
    whole, program = Program(cut, after=after), Program(cut, after=after)
    whole.cut = None
    call: Callable[[Any], Any] = tf.function(lambda x: program.step(x)) if nested else program.step
    with pytest.raises(cut, match="cut"):
        call(tf.constant(1.0))
    for x in (1.0, 2.0, 3.0):
        answer = call(tf.constant(x))
        assert answer is not None, "TensorFlow's own answer"
        assert answer.numpy().tolist() == pytest.approx(whole.step(tf.constant(x)).numpy().tolist())


def test_cut_twice() -> None:
    program = Program(KeyboardInterrupt, after=True)
    for _ in range(2):
        program.cut = KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt):
            program.step(tf.constant(1.0))
    assert program.step(tf.constant(1.0)).numpy().min() > x0()


def test_a_function_that_was_not_cut_still_refuses_variables_in_a_later_call() -> None:
    made: list[Any] = []

    @tf.function
    def step(x: Any) -> Any:
        made.append(tf.Variable(1.0))
        return made[-1] + x

    with pytest.raises(ValueError, match=r"singleton tf\.Variable"):
        step(tf.constant(1.0))


def test_a_thread_that_was_left_in_a_functions_graph_gets_out() -> None:
    from tensorflow.python.framework import func_graph, ops

    entered = func_graph.FuncGraph("cut").as_default()
    kept.append(entered)
    entered.__enter__()  # and an interrupt comes before what would leave it
    assert not tf.executing_eagerly()
    interrupted_tracing.leave_graphs()
    assert tf.executing_eagerly()
    assert float(tf.constant(1.0) + 1.0) == 2.0
    assert ops._default_graph_stack.stack == []
    with tf.init_scope():
        assert tf.executing_eagerly()
    assert float(tf.function(lambda x: x + 1.0)(tf.constant(1.0))) == 2.0


def test_a_graph_of_the_programs_own_stays() -> None:
    with tf.Graph().as_default() as graph:
        interrupted_tracing.leave_graphs()
        assert tf.compat.v1.get_default_graph() is graph
    assert tf.executing_eagerly()
