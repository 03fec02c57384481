"""The panel's catalogues say all that its source says, and JupyterLab finds them."""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server import translation_utils

from jupyter_ddl.server import settings_translation

sys.path.append(str(Path(__file__).parents[2] / "labextension" / "translations"))
CATALOGUES: Any = importlib.import_module("catalogues")
LOCALES = CATALOGUES.locales()


def test_there_are_two() -> None:
    assert LOCALES == ["cs_CZ", "de_DE"]


@pytest.mark.parametrize("locale", LOCALES)
def test_a_catalogue_has_what_the_source_asks_for_and_nothing_else(locale: str) -> None:
    asked, content = CATALOGUES.asked(), CATALOGUES.catalogue(locale)
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


def test_the_settings_are_translated_by_our_catalogues_before_a_language_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_utils.translator, "_TRANSLATORS", {})
    monkeypatch.setattr(translation_utils.translator, "_LOCALE", "en")
    settings_translation.install()
    schema = json.loads((CATALOGUES.SETTINGS / "panel.json").read_text())
    translation_utils.translator.set_locale("de_DE")
    found = translation_utils.translator.translate_schema(copy.deepcopy(schema))
    assert found["title"] == "Verteiltes Training"
    assert found["properties"]["notifications"]["title"] == "Benachrichtigungen"
    assert found["jupyter.lab.menus"]["main"][0]["items"][1]["submenu"]["label"] == "Verteilt"
    translation_utils.translator.set_locale("cs_CZ")
    assert translation_utils.translator.translate_schema(copy.deepcopy(schema))["title"] == "Distribuované trénování"
    # There is no catalogue of ours.
    translation_utils.translator.set_locale("fr_FR")
    assert translation_utils.translator.translate_schema(copy.deepcopy(schema))["title"] == "Distributed Training"


@pytest.mark.parametrize("path", sorted(CATALOGUES.SETTINGS.glob("*.json")), ids=lambda path: path.stem)
def test_all_settings_name_our_domain(path: Path) -> None:
    schema = json.loads(path.read_text())
    assert schema["jupyter.lab.internationalization"] == {"domain": settings_translation.DOMAIN}
