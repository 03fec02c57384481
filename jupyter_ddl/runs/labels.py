"""Keeps what a user says of a run: its name, a note, tags, and parameters that were added when it was over.

It is in `labels.json` beside run.json, which belongs to the kernel that records the run.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.protocol.codec import json_value
from jupyter_ddl.protocol.parameters import MOST, Scalar, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILE = "labels.json"
NAME_CHARACTERS = 100
NOTE_CHARACTERS = 2_000
MOST_TAGS = 20
_TAG = re.compile(r"[^\s,]{1,40}")


@dataclass(frozen=True)
class Labels:
    """What a user says of a run.

    Attributes:
        name: None where it has none.
        note: likewise.
        tags: in the order in which they were given.
        parameters: what `jupyter_ddl.log_params` added in the kernel.
    """

    name: str | None = None
    note: str | None = None
    tags: tuple[str, ...] = ()
    parameters: dict[str, Scalar] = field(default_factory=dict)


def read_labels(folder: Path) -> Labels:
    """Return the labels of the run in a folder, without what is missing or broken."""
    try:
        content = untrusted_files.read_object(folder / FILE)
    except (OSError, ValueError):
        # Most runs have none.
        return Labels()
    name, note, tags = content.get("name"), content.get("note"), content.get("tags")
    return Labels(
        name=name if isinstance(name, str) and _is_name(name) else None,
        note=note if isinstance(note, str) and _is_note(note) else None,
        tags=tuple(filter(_is_tag, tags))[:MOST_TAGS] if isinstance(tags, list) else (),
        parameters=readable(content.get("parameters")),
    )


def rename(folder: Path, name: str) -> None:
    """Give a run a name; an empty one removes it.

    Raises:
        InvalidInput: it is no name, or cannot be written.
    """
    if name and not _is_name(name):
        rule = f"A run's name is one line of at most {NAME_CHARACTERS} printable characters."
        raise InvalidInput(rule, _shown(name), "Pass a shorter or plainer name; '' removes it.")
    _write(folder, replace(read_labels(folder), name=name or None))


def annotate(folder: Path, note: str) -> None:
    """Give a run a note; an empty one removes it.

    Raises:
        InvalidInput: it is no note, or cannot be written.
    """
    if note and not _is_note(note):
        rule = f"A run's note is a text of at most {NOTE_CHARACTERS:,} printable characters."
        raise InvalidInput(rule, f"{len(note):,}: {_shown(note)}", "Shorten it, or leave out control characters.")
    _write(folder, replace(read_labels(folder), note=note or None))


def tag(folder: Path, tags: Iterable[str]) -> None:
    """Add tags to a run's.

    Raises:
        InvalidInput: one is no tag, there are too many, or they cannot be written.
    """
    labels = read_labels(folder)
    together = tuple(dict.fromkeys([*labels.tags, *tags]))
    for one in together:
        if not _is_tag(one):
            rule = "A tag is a word of at most 40 printable characters, without a comma."
            raise InvalidInput(rule, _shown(one), "Write several tags as several words.")
    if len(together) > MOST_TAGS:
        raise InvalidInput(f"A run has at most {MOST_TAGS} tags.", f"{len(together)}", "Remove some first.")
    _write(folder, replace(labels, tags=together))


def untag(folder: Path, tags: Iterable[str]) -> None:
    """Remove tags from a run's; those that it does not have change nothing.

    Raises:
        InvalidInput: it cannot be written.
    """
    labels, gone = read_labels(folder), set(tags)
    _write(folder, replace(labels, tags=tuple(one for one in labels.tags if one not in gone)))


def add_parameters(folder: Path, parameters: Mapping[str, Scalar]) -> None:
    """Add parameters, already checked, to a run's.

    Raises:
        InvalidInput: there are too many, or they cannot be written.
    """
    labels = read_labels(folder)
    together = {**labels.parameters, **parameters}
    if len(together) > MOST:
        raise InvalidInput(
            f"A run has at most {MOST} parameters.", f"{len(together):,}", "Log those that tell runs apart."
        )
    _write(folder, replace(labels, parameters=together))


def _write(folder: Path, labels: Labels) -> None:
    content = {"name": labels.name, "note": labels.note, "tags": labels.tags, "parameters": labels.parameters}
    try:
        files.replace(folder / FILE, json.dumps(json_value(content), allow_nan=False))
    except OSError as error:
        rule, remedy = "A run's folder must be writable for its labels.", "Free some space, or ask its owner."
        raise InvalidInput(rule, f"{folder} ({error.strerror or error})", remedy) from error


def _is_name(text: str) -> bool:
    return 0 < len(text) <= NAME_CHARACTERS and text.isprintable() and not text.isspace()


def _is_note(text: str) -> bool:
    return 0 < len(text) <= NOTE_CHARACTERS and all(line.isprintable() for line in text.split("\n"))


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None and value.isprintable()


def _shown(text: str) -> str:
    return ascii(text if len(text) <= NAME_CHARACTERS else text[:NAME_CHARACTERS] + "…")
