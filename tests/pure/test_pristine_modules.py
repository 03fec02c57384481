"""What a cell replaced is found and put back, whatever stands in its place."""

from __future__ import annotations

import builtins
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jupyter_ddl.engine.pristine_modules import Foundations

if TYPE_CHECKING:
    from collections.abc import Iterator


def broken() -> None:
    raise RuntimeError("The machinery does not work.")


@pytest.fixture
def foundations() -> Iterator[Foundations]:
    made = Foundations(broken)
    yield made
    made.put_back(without_asking=True)


def test_nothing_is_put_back_where_all_is_as_it_was(foundations: Foundations) -> None:
    assert foundations.put_back() == []


@pytest.mark.parametrize("instead", [None, np.ones(3), lambda _: None], ids=["None", "an array", "a function"])
def test_what_was_replaced_is_put_back(foundations: Foundations, instead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = time.sleep
    monkeypatch.setattr(time, "sleep", instead)
    assert foundations.put_back() == ["time.sleep"]
    assert time.sleep is stock


def test_a_builtin_and_what_was_deleted_are_put_back(foundations: Foundations) -> None:
    stock_len, stock_dumps = builtins.len, json.dumps
    builtins.len = lambda _: 3
    del json.dumps
    assert foundations.put_back() == ["builtins.len", "json.dumps"]
    assert (len, json.dumps) == (stock_len, stock_dumps)


def test_a_replacement_that_works_is_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    foundations = Foundations(lambda: None)
    stock = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: stock(seconds))
    ours = time.sleep
    assert foundations.put_back() == []
    assert time.sleep is ours
    monkeypatch.setattr(time, "sleep", None)
    assert foundations.put_back() == ["time.sleep"]
    assert time.sleep is ours
