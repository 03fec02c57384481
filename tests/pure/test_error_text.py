"""The text of an exception: whatever it is, it can be sent."""

from __future__ import annotations

import traceback

import pytest

from jupyter_ddl.engine.error_text import (
    bounded,
    chain_of,
    give_up_text,
    is_given_up,
    plain_traceback,
    text_of,
    words_of,
)


class Unreadable(Exception):
    """Its text must not be asked for."""

    def __str__(self) -> str:
        raise AssertionError("the text was asked for")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error from cause
    return caught.value


def test_words_are_those_that_it_was_made_of() -> None:
    assert words_of(Unreadable("HorovodInternalError:", 3, "another rank")) == "HorovodInternalError: another rank"
    assert len(words_of(Unreadable("x" * 100_000))) < 30_000


def test_words_are_those_of_attributes_too() -> None:
    # TensorFlow's errors have no arguments: their class sets none. Source: tensorflow 2.21, framework/errors_impl.py
    tf = pytest.importorskip("tensorflow")
    error = tf.errors.AbortedError(None, None, "the collective was ended")
    assert error.args == ()
    assert words_of(error) == "the collective was ended"


def test_a_text_that_is_given_up_is_not_asked_for_again() -> None:
    error = raised(Unreadable("1"))
    assert not is_given_up(error)
    give_up_text(error, "it took too long")
    assert is_given_up(error)
    assert text_of(error) == "<its text could not be read: it took too long>"
    assert "".join(plain_traceback(error)).endswith("Unreadable: <its text could not be read: it took too long>\n")


def test_nor_is_that_of_a_cause() -> None:
    cause = raised(Unreadable("1"))
    error = raised(ValueError("after it"), cause)
    give_up_text(cause, "it took too long")
    assert "".join(plain_traceback(error)).endswith("\nValueError: after it\n")


def test_others_have_python_s_traceback() -> None:
    error = raised(ValueError("after it"), raised(KeyError("cause")))
    assert plain_traceback(error) == traceback.format_exception(error)


def test_a_chain_that_is_a_ring_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert list(chain_of(first)) == [first, second]


def test_a_context_that_a_traceback_leaves_out_is_not_read() -> None:
    context, cause = ValueError("context"), ValueError("cause")
    shown, hidden, caused = ValueError("shown"), ValueError("hidden"), ValueError("caused")
    shown.__context__ = hidden.__context__ = caused.__context__ = context
    hidden.__suppress_context__ = True
    caused.__cause__ = cause
    assert list(chain_of(shown)) == [shown, context]
    assert list(chain_of(hidden)) == [hidden]
    assert list(chain_of(caused)) == [caused, cause]


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert bounded("a" * 30 + "b" * 40 + "c" * 30, 60) == "a" * 30 + "… (40 characters left out) …" + "c" * 30
