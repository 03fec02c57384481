"""The panel's translations: what its source asks for, and what each catalogue lacks. Run by `make translations`.

The names of settings and menus, which JupyterLab's server translates (`server/settings_translation.py`), are among it,
with their contexts.

A catalogue is the JSON that JupyterLab's translator reads: a message, and its forms in the plural's order. JupyterLab
offers a language where its language pack is installed (`pip install jupyterlab-language-pack-de-DE`), and adds our
catalogue to it.
Source: https://jupyterlab.readthedocs.io/en/stable/extension/internationalization.html
"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

from jupyterlab_server.translation_utils import DEFAULT_SCHEMA_SELECTORS

from jupyter_ddl.protocol.hub_messages import ClusterState, RankState, RunNotice
from jupyter_ddl.server.settings_translation import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "labextension" / "src"
SETTINGS = ROOT / "labextension" / "settings"
LOCALES = ROOT / "jupyter_ddl" / "server" / "locale"
_CALL = re.compile(r"\btrans\s*\.\s*(__|_n)\(\s*")
# A word of a table, which is translated where it is shown.
_NAMED = re.compile(r"\bword: '([^']+)'")
_LITERAL = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`([^`$\\]*)`")
_ANY_LITERAL = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:\$\{(?:[^{}]|\{[^{}]*\})*\}|[^`\\]|\\.)*`")
_PLURAL = re.compile(rf"\b_n\(\s*(?:{_ANY_LITERAL.pattern}),\s*({_ANY_LITERAL.pattern})")
_COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*", re.DOTALL)
_FILLED_IN = re.compile(r"\$\{(?:[^{}]|\{[^{}]*\})*\}")
# The same in each language.
_UNITS = re.compile(r"\b(?:GiB|MiB|min|ms|pid)\b")
_WORDS = re.compile(r"(?<![\w.<-])[A-Za-z]{2,}[,.:]? [^a-z]*[A-Za-z%]|% [a-z]{2,}\b")
# Magics and options, keys, selectors, styles and pictures.
_OF_PROGRAMS = re.compile(r"^%+[a-z]|^%?--|[<>{}\[\]=]|[\w-]+:[\w%]|ddl-|jp-|lm-|px |^\(|gradient\(")
# A word that is passed by its name: a state of what the hub tells of.
_WORD = re.compile(r"(?:word|text|state|cluster\.state)\b")
PLACES = re.compile(r"%\d")


def messages(source: Path = SOURCE) -> dict[str, bool]:
    """Return what the panel's source has translated: message -> whether it has a plural.

    Raises:
        ValueError: a message is neither a literal nor a state's word: no catalogue could have it.
    """
    found: dict[str, bool] = dict.fromkeys(_state_words(), False)
    for path in sorted(source.rglob("*.ts")):
        text = path.read_text()
        found.update(dict.fromkeys(_NAMED.findall(text), False))
        for call in _CALL.finditer(text):
            literal = _LITERAL.match(text, call.end())
            if literal is not None:
                message = next(part for part in literal.groups() if part is not None)
                found[re.sub(r"\\(.)", r"\1", message)] = call.group(1) == "_n"
            elif not _WORD.match(text, call.end()):
                line = text.count("\n", 0, call.end()) + 1
                given = text[call.start() :].partition("\n")[0]
                raise ValueError(f"A message must be a literal. Received: {path.name}, line {line}: {given}.")
    return found


def untranslated(source: Path = SOURCE) -> dict[str, set[str]]:
    """Return texts of the panel's source that no catalogue gets: file -> what reads as words there.

    That is a literal with a word beside a space, `%` in place of what is filled in. A single word may as well be a name
    that no one sees, and is not found.
    """
    known = messages(source).keys()
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.ts")):
        code = _COMMENT.sub("", path.read_text())
        plurals = {literal[1:-1] for literal in _PLURAL.findall(code)}
        texts = set(_literals(code)) - known - plurals
        texts = {text for text in texts if _WORDS.search(_UNITS.sub("", text)) and not _OF_PROGRAMS.search(text)}
        if texts and not path.name.endswith(".d.ts"):
            found[path.relative_to(source).as_posix()] = texts
    return found


def _literals(code: str) -> Iterator[str]:
    """Yield the literals of TypeScript code, those in what a template fills in included."""
    for literal in _ANY_LITERAL.finditer(code):
        text = literal.group()[1:-1]
        for filled_in in _FILLED_IN.findall(text):
            yield from _literals(filled_in)
        yield re.sub(r"\\(.)", r"\1", _FILLED_IN.sub("%", text))


def settings_messages(folder: Path = SETTINGS) -> dict[str, bool]:
    """Return what JupyterLab has translated of the settings, with its contexts; nothing of it has a plural."""
    found = [
        message
        for path in sorted(folder.glob("*.json"))
        for message in _schema_messages("", json.loads(path.read_text()))
    ]
    return dict.fromkeys(found, False)


def asked() -> dict[str, bool]:
    """Return all that a catalogue must have: message -> whether it has a plural."""
    return messages() | settings_messages()


def catalogue(locale: str) -> dict[str, list[str]]:
    """Return a catalogue's messages, each with its forms."""
    content = json.loads(_path(locale).read_text())
    del content[""]
    return dict(content)


def forms(locale: str) -> int:
    """Return how many forms a plural has."""
    found = re.match(r"nplurals=(\d)", json.loads(_path(locale).read_text())[""]["plural_forms"])
    assert found is not None
    return int(found.group(1))


def locales() -> list[str]:
    """Return the languages that have a catalogue."""
    return sorted(path.name for path in LOCALES.iterdir() if path.is_dir())


def _state_words() -> set[str]:
    kinds = [get_type_hints(kind)["state"] for kind in (ClusterState, RankState, RunNotice)]
    # A literal's arguments are its words, and a union's are literals.
    parts = [part for kind in kinds for part in (kind, *get_args(kind))]
    return {word for part in parts for word in get_args(part) if isinstance(word, str)}


def _schema_messages(path: str, value: object) -> Iterator[str]:
    if isinstance(value, str) and value:
        # The first that fits, as jupyterlab_server has it.
        contexts = (
            context for pattern, context in DEFAULT_SCHEMA_SELECTORS.items() if re.fullmatch("/" + pattern, path)
        )
        yield from (f"{context}{SEPARATOR}{value}" for context in islice(contexts, 1))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _schema_messages(f"{path}/{key}", part)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _schema_messages(f"{path}[{at}]", part)


def _path(locale: str) -> Path:
    return LOCALES / locale / "LC_MESSAGES" / "jupyter_ddl.json"


def main() -> int:
    """Print what each catalogue lacks, and write it without what nothing asks for any more."""
    needed = asked()
    for locale in locales():
        path = _path(locale)
        content = json.loads(path.read_text())
        kept = {"": content[""]} | {message: content[message] for message in sorted(needed) if message in content}
        lines = [f"  {json.dumps(message)}: {json.dumps(said, ensure_ascii=False)}" for message, said in kept.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        for message in sorted(needed.keys() - content.keys()):
            empty = [""] * (forms(locale) if needed[message] else 1)
            print(f"{locale}: {json.dumps(message)}: {json.dumps(empty)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
