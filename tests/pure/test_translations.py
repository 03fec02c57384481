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


# What stays English, as docs/panel.md says: of a plugin its description, of our own code's faults what the protocol
# demands.
DESCRIPTIONS = ("plugins/", "tokens.ts")
FAULTS_OF_OURS = ("connection.ts", "model/feed.ts", "model/parse.ts", "model/parse_hub.ts", "model/timeline.ts")
STAY_ENGLISH = {
    # Lines of a log, and a stall, of which the kernel tells.
    "model/logs.ts": {"… % bytes are only in the log file"},
    "model/run.ts": {
        *("Rank % is gone: %", "Rank % on % raised %", "The ranks are gone: %"),
        "An event must be of a type that is known. Received: %.",
    },
    "model/stall.ts": {
        *("The cell has stalled again. % entered: %", "Not every rank has"),
        *("Rank % has not", "Ranks % have not"),
    },
    # What a kernel says, and what it must say.
    "model/no_ranks.ts": {
        "Cell magic `%%distributed` not found.",
        "Ranks must run before a cell can go to them.",
    },
    "model/profile.ts": {
        (
            "The kernel must answer with a profile. Received: something else. "
            "Restart it: its jupyter_ddl is of another version."
        )
    },
    "model/runs.ts": {"A list of runs must have runs."},
    # A selector, an argument.
    "panels/label_dialogs.ts": {"input, textarea"},
    "panels/run_page.ts": {"last error"},
}


def test_what_reads_as_words_is_translated_or_stays_english_for_a_reason() -> None:
    found = CATALOGUES.untranslated()
    # Types, made from Python's.
    assert found.pop("model/events.ts")
    assert [file for file in FAULTS_OF_OURS if not found.pop(file)] == []
    plugins = [file for file in found if file.startswith(DESCRIPTIONS)]
    assert {file: len(found.pop(file) - {"last error"}) for file in plugins} == dict.fromkeys(plugins, 1) | {
        # Two plugins, or their types.
        "plugins/cells.ts": 2,
    }
    assert found == STAY_ENGLISH, "write trans.__('...'), or say here why not"


def test_a_text_that_is_not_translated_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.ts").write_text(
        "trans.__('No run yet.'); trans._n('%1 rank', '%1 ranks', n); // 'not so'\n"
        "h('div', { class: 'ddl-a ddl-b' }, `${n} GiB`); `--time ${time}`; `%ddl attach ${name}`;"
    )
    assert CATALOGUES.untranslated(tmp_path) == {}
    (tmp_path / "bad.ts").write_text(
        "setText(a, 'No run yet, it seems'); `rank ${n}`; `×${n} in ${part}`; `${is ? 'cell line' : ''} ${n}`;"
    )
    found = CATALOGUES.untranslated(tmp_path)
    assert found == {"bad.ts": {"No run yet, it seems", "rank %", "×% in %", "cell line"}}


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
