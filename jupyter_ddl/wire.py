"""Everything that crosses a process border is a frozen dataclass of JSON values with one codec.

`encode` gives a dict with a `type`, `decode` gives the dataclass back. `events` has what happened, `requests` what is
asked of a rank; a process decodes what it has imported.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar


class Wire:
    """Base of what crosses a process border; `type` names the class on the wire."""

    type: ClassVar[str]
    kinds: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Let `decode` find the class by its `type`."""
        Wire.kinds[cls.type] = cls


def encode(message: Any) -> dict[str, Any]:
    """Return the JSON form of a `Wire`: the dataclass's fields, and `type`. What a field holds is not copied."""
    content: dict[str, Any] = {"type": message.type}
    for name in _names(message.type):
        value = getattr(message, name)
        content[name] = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return content


def as_line(message: Any) -> bytes:
    """Return a message as a line of JSON, as files and pipes have it."""
    return json.dumps(encode(message)).encode() + b"\n"


def decode(content: dict[str, Any]) -> Any:
    """Return the dataclass of a JSON form.

    Fields that this version does not know are left out, so that a newer rank can be read.

    Raises:
        ValueError: `type` is missing or unknown, or a field is missing.
    """
    wire = Wire.kinds.get(content.get("type", ""))
    if wire is None:
        raise ValueError(f"A message's type must be one of {sorted(Wire.kinds)}. Received: {content.get('type')!r}.")
    known = _names(wire.type)
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items() if name in known
    }
    try:
        return wire(**values)
    except TypeError as error:
        raise ValueError(f"A {wire.type} message must have all its fields. Received: {sorted(values)}.") from error


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(Wire.kinds[kind]))
