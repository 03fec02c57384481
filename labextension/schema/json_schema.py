"""Writes a JSON schema of dataclasses."""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from collections.abc import Iterable


def schema(kinds: tuple[Any, ...], title: str, source: str) -> dict[str, Any]:
    """Return the schema of what is one of some classes, of a module of jupyter_ddl/protocol."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": f"Generated from jupyter_ddl/protocol/{source} by `make schema`.",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": {
            kind.__name__: _schema_of_class(kind) for kind in (*parts_of(kinds), *kinds) if not is_typeddict(kind)
        },
    }


def _schema_of_class(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    tag = {"type": {"const": kind.type}} if hasattr(kind, "type") else {}
    properties = tag | {f.name: schema_of(hints[f.name]) for f in fields(kind)}
    required = [*tag, *(f.name for f in fields(kind) if is_required(f))]
    return {
        "description": (kind.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def parts_of(kinds: Iterable[Any]) -> list[Any]:
    """Return the dataclasses of which fields of others consist, those first that others consist of."""
    found: dict[Any, None] = {}
    for kind in kinds:
        for hint in get_type_hints(kind).values():
            named = (hint, *get_args(hint))
            parts = [part for part in named if (is_dataclass(part) and isinstance(part, type)) or is_typeddict(part)]
            found |= dict.fromkeys([*parts_of(parts), *parts])
    return list(found)


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the schema of a type."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
    if hint is Any:
        return {}
    if hint is float:
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    if hint in simple:
        return {"type": simple[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if is_dataclass(hint) and isinstance(hint, type):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if is_typeddict(hint):
        properties = {name: schema_of(value) for name, value in get_type_hints(hint).items()}
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(argument) for argument in arguments]}
    raise TypeError(f"A field of an event must be of a type that JSON has. Received: {hint}.")


def is_required(f: Field[Any]) -> bool:
    """Return whether a field has no default."""
    return f.default is MISSING and f.default_factory is MISSING
