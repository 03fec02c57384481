"""Of what a cell shows, no more is sent and kept than a person can look at; what is left out is said."""

from __future__ import annotations

import pytest

from jupyter_ddl.engine import display
from jupyter_ddl.engine.display import bounded_bundle


def test_a_long_text_keeps_its_ends_and_says_what_is_missing() -> None:
    text = "a" * 5_000_000 + "b" * 5_000_000
    shown = bounded_bundle({"text/plain": text})["text/plain"]
    assert shown.startswith("a" * 1000)
    assert shown.endswith("b" * 1000)
    assert (
        "… (8,951,424 characters left out: at most 1,048,576 of a value are shown; session.pull gives all of it)"
        in shown
    )
    assert len(shown) < 1_100_000
    assert bounded_bundle({"text/plain": shown[:1_000_000]}) == {"text/plain": shown[:1_000_000]}


@pytest.mark.parametrize("value", ["<svg>" * 100, b"png" * 100])
def test_a_picture_that_is_too_big_is_left_out_by_name(value: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_OTHER_BYTES", 200)
    shown = bounded_bundle(
        {"text/plain": "<Figure>", "image/x": value, "text/html": "<b>", "application/json": {"a": 1}}
    )
    assert "image/x" not in shown
    assert shown["text/plain"].startswith(
        "<Figure>\n(image/x of 0 MiB was left out: at most 0 MiB are shown. Write it to"
    )
    assert shown["text/html"] == "<b>"
    assert shown["application/json"] == {"a": 1}
