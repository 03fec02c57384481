"""Has the names of our settings and menus translated by our catalogues, as the rest of the panel is.

JupyterLab's server translates them, before the browser gets them, and looks in its language packs alone. So this domain
gets a bundle that looks in `locale` first.

Source: jupyterlab_server 2.28, translation_utils.py (translator.translate_schema, TranslationBundle.update_locale)

Runs on: Jupyter server
"""

from __future__ import annotations

import json
from pathlib import Path

from jupyterlab_server.translation_utils import TranslationBundle, translator

DOMAIN = "jupyter_ddl"
# Between a context and its message, as gettext has it.
SEPARATOR = "\x04"
_LOCALES = Path(__file__).parent / "locale"


def install() -> None:
    """Put the bundle where JupyterLab's server looks for that of our domain."""
    # It has no public way in. Where this one is gone, the names are English.
    bundles = vars(translator).get("_TRANSLATORS")
    if isinstance(bundles, dict):
        bundles[DOMAIN] = CatalogueBundle(DOMAIN, vars(translator)["_LOCALE"])


class CatalogueBundle(TranslationBundle):
    """A domain's translations from the catalogue that comes with the package; without one, as from a language pack."""

    def update_locale(self, locale_: str) -> None:
        """Read the catalogue of another language."""
        super().update_locale(locale_)
        path = _LOCALES / locale_ / "LC_MESSAGES" / f"{DOMAIN}.json"
        self._messages: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def pgettext(self, msgctxt: str, msgid: str) -> str:
        """Return a message in its context, translated where the catalogue has it."""
        said = self._messages.get(f"{msgctxt}{SEPARATOR}{msgid}")
        return super().pgettext(msgctxt, msgid) if said is None else said[0]
