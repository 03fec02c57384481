"""The panel's catalogues say all that its source says, and JupyterLab finds them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server import translation_utils

sys.path.append(str(Path(__file__).parents[2] / "labextension" / "translations"))
CATALOGUES: Any = importlib.import_module("catalogues")
LOCALES = CATALOGUES.locales()


def test_there_are_two() -> None:
    assert LOCALES == ["cs_CZ", "de_DE"]


@pytest.mark.parametrize("locale", LOCALES)
def test_a_catalogue_has_what_the_source_asks_for_and_nothing_else(locale: str) -> None:
    asked, content = CATALOGUES.messages(), CATALOGUES.catalogue(locale)
    assert sorted(asked.keys() - content.keys()) == [], "run `make translations`, and fill these in"
    assert sorted(content.keys() - asked.keys()) == [], "run `make translations`"
    plural = CATALOGUES.forms(locale)
    wrong = {message: said for message, said in content.items() if len(said) != (plural if asked[message] else 1)}
    assert wrong == {}


@pytest.mark.parametrize("locale", LOCALES)
def test_a_translation_has_the_same_places_for_values(locale: str) -> None:
    places = CATALOGUES.PLACES.findall
    wrong = {
        message: said
        for message, forms in CATALOGUES.catalogue(locale).items()
        for said in forms
        if not said or set(places(said)) != set(places(message))
    }
    assert wrong == {}


def test_a_message_that_no_catalogue_can_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good.ts").write_text("trans.__('Don\\'t'); trans._n('%1 rank', '%1 ranks', n);")
    found = CATALOGUES.messages(tmp_path)
    assert found["Don't"] is False
    assert found["%1 rank"] is True
    (tmp_path / "bad.ts").write_text("\ntrans.__(`${n} ranks`)")
    with pytest.raises(ValueError, match=r"A message must be a literal\. Received: bad\.ts, line 2: "):
        CATALOGUES.messages(tmp_path)


@pytest.mark.parametrize(("locale", "start"), [("de_DE", "Ränge starten"), ("cs_CZ", "Spustit ranky")])
def test_jupyterlab_finds_them(locale: str, start: str) -> None:
    packs, message = translation_utils.get_language_pack(locale)
    assert message == ""
    assert packs["jupyter_ddl"]["Start ranks"] == [start]
