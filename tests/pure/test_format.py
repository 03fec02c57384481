"""Numbers are shown alike by Python and by the browser: both read the same fixture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_ddl.protocol import number_texts as module
from jupyter_ddl.protocol.codec import number_in

FIXTURE = json.loads((Path(__file__).parents[2] / "labextension/schema/format.fixture.json").read_text())


@pytest.mark.parametrize(
    ("name", "value", "text"), [(name, value, text) for name, pairs in FIXTURE.items() for value, text in pairs]
)
def test_a_number_is_shown_as_the_browser_shows_it(name: str, value: object, text: str) -> None:
    assert getattr(module, name)(number_in(value)) == text


@pytest.mark.parametrize("name", FIXTURE)
def test_nothing_is_shown_as_such(name: str) -> None:
    assert getattr(module, name)(None) == "-"


@pytest.mark.parametrize("value", [10**300, -(10**18), 1e40, True])
def test_no_number_is_too_large(value: float) -> None:
    for name in FIXTURE:
        assert getattr(module, name)(value)
