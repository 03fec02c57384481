"""Writes TypeScript's types of events and of the hub's messages, and what it checks of them."""

from __future__ import annotations

import json
import types
from collections import Counter
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from json_schema import is_required, parts_of, schema_of

from jupyter_ddl.protocol import events, hub_messages
from jupyter_ddl.protocol.codec import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FIELD = (
    "export interface Field {",
    "  readonly kind: 'string' | 'number' | 'boolean' | 'array' | 'object' | 'any';",
    "  readonly nullable?: true;",
    "  readonly default?: unknown;",
    "  /** What the object, or each item of the array, has. */",
    "  readonly of?: Readonly<Record<string, Field>>;",
    "}",
)


def events_ts(kinds: tuple[Any, ...]) -> str:
    """Return the types of the events."""
    return _generated("events.py", ["", *_interfaces(kinds), *_union("DdlEvent", kinds)[:-1]])


def event_fields_ts(kinds: tuple[Any, ...]) -> str:
    """Return what is checked of the events' fields."""
    lines = ["import type { DdlEvent } from './events';", "", *_FIELD, "", *_table("DdlEvent", kinds)]
    return _generated("events.py", lines[:-1])


def hub_ts() -> str:
    """Return the types of the hub's messages."""
    to_browser, from_browser = get_args(hub_messages.ToBrowser), get_args(hub_messages.FromBrowser)
    # Parts of events too: the types of those are written beside the events.
    shared = parts_of(get_args(events.Event))
    lines = ["import type { Field } from './event_fields';", "import type { Fault } from './events';", ""]
    lines += _interfaces((*to_browser, *from_browser), without=shared)
    lines += [*_union("ToBrowser", to_browser), *_union("FromBrowser", from_browser), *_table("ToBrowser", to_browser)]
    return _generated("hub_messages.py", lines[:-1])


def _generated(source: str, lines: list[str]) -> str:
    head = f"// Generated from jupyter_ddl/protocol/{source} by `make schema`; not to be edited."
    return "\n".join([head, *lines, ""])


def _interfaces(kinds: tuple[Any, ...], without: Sequence[Any] = ()) -> Iterator[str]:
    for kind in (one for one in (*parts_of(kinds), *kinds) if one not in without):
        yield f"/** {(kind.__doc__ or '').partition(chr(10))[0]} */"
        yield f"export interface {kind.__name__} {{"
        if hasattr(kind, "type"):
            yield f"  readonly type: {json.dumps(kind.type)};"
        yield from (f"  readonly {name}: {_typescript_of(hint)};" for name, hint in _hints(kind).items())
        yield from ("}", "")


def _union(name: str, kinds: tuple[Any, ...]) -> list[str]:
    *first, last = (f"  | {kind.__name__}" for kind in kinds)
    return [f"export type {name} =", *first, f"{last};", ""]


def _table(union: str, kinds: tuple[Any, ...]) -> Iterator[str]:
    table = {kind.type: {f.name: _field(f, hint) for f, hint in _fields(kind)} for kind in kinds}
    # What many fields are is written once: a page that loads this has the room for other things.
    counts = Counter(json.dumps(field) for of in table.values() for field in _with_inner(of))
    names = _names(text for text, count in counts.items() if count > 1)
    yield from (f"const {name}: Field = {text};" for text, name in names.items())
    yield "/** Of each type its fields: what JSON value each is, and what stands for one that may be left out. */"
    yield f"export const FIELDS: Readonly<Record<{union}['type'], Readonly<Record<string, Field>>>> = {{"
    for kind, of in table.items():
        yield f"  {kind}: {{"
        yield from (f"    {name}: {_literal(field, names)}," for name, field in of.items())
        yield "  },"
    yield from ("};", "")


def _with_inner(of: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield fields, and those that they have within."""
    for field in of.values():
        yield field
        yield from _with_inner(field.get("of", {}))


def _literal(field: dict[str, Any], names: dict[str, str]) -> str:
    """Return a field as TypeScript has it, by the constants that there are."""
    text = json.dumps(field)
    if text in names or "of" not in field:
        return names.get(text, text)
    of = ", ".join(f"{json.dumps(name)}: {_literal(inner, names)}" for name, inner in field["of"].items())
    rest = ((key, json.dumps(value)) for key, value in field.items() if key != "of")
    return "{" + ", ".join(f'"{key}": {value}' for key, value in (*rest, ("of", f"{{{of}}}"))) + "}"


def _names(texts: Iterator[str]) -> dict[str, str]:
    """Return a constant's name for each field: its kind, with a number where several are of one kind."""
    names: dict[str, str] = {}
    for text in texts:
        field = json.loads(text)
        name = (
            ("OPTIONAL_" if "default" in field else "") + ("NULLABLE_" if "nullable" in field else "") + field["kind"]
        )
        same = sum(one.startswith(name.upper()) for one in names.values())
        names[text] = name.upper() + (f"_{same + 1}" if same else "")
    return names


def _fields(kind: Any) -> Iterator[tuple[Field[Any], Any]]:
    hints = _hints(kind)
    return ((f, hints[f.name]) for f in fields(kind))


def _hints(kind: Any) -> dict[str, Any]:
    """Return the type of each field, also of a TypedDict."""
    hints = get_type_hints(kind)
    return hints if is_typeddict(kind) else {f.name: hints[f.name] for f in fields(kind)}


def _checked(hint: Any) -> dict[str, Any]:
    """Return what TypeScript checks of a value of a type."""
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    is_union = get_origin(hint) in (Union, types.UnionType)
    plain = schema_of(arguments[0] if is_union else hint)
    simple = "object" if "$ref" in plain else plain.get("type", "any")
    kind = "number" if "anyOf" in plain else "string" if "enum" in plain else simple
    is_nullable = len(arguments) < len(get_args(hint))
    checked = {"kind": "number" if kind == "integer" else kind, **({"nullable": True} if is_nullable else {})}
    # Only what the hub has checked before is looked into; an event's parts are the rank's.
    inner = next((one for one in (hint, *get_args(hint)) if is_typeddict(one)), None)
    return checked if inner is None else checked | {"of": {n: _checked(h) for n, h in _hints(inner).items()}}


def _field(f: Field[Any], hint: Any) -> dict[str, Any]:
    checked = _checked(hint)
    return checked if is_required(f) else {**checked, "default": _default(f)}


def _typescript_of(hint: Any) -> str:
    arguments = get_args(hint)
    origin = get_origin(hint)
    simple = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", Any: "unknown"}
    if hint in simple:
        return simple[hint]
    if origin is Literal:
        return " | ".join(json.dumps(argument) for argument in arguments)
    if (is_dataclass(hint) and isinstance(hint, type)) or is_typeddict(hint):
        return str(hint.__name__)
    if origin in (tuple, list):
        return f"readonly {_typescript_of(arguments[0])}[]"
    if origin is dict:
        return f"Readonly<Record<string, {_typescript_of(arguments[1])}>>"
    return " | ".join(_typescript_of(argument) for argument in arguments)


def _default(f: Field[Any]) -> Any:
    default = f.default if f.default_factory is MISSING else f.default_factory()
    return json_value(asdict(default)) if is_dataclass(default) and not isinstance(default, type) else default
