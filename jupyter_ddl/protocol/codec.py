"""Everything that crosses a process border is a frozen dataclass of JSON values with one codec.

`encode` gives a dict with a `type`, `decode` gives the dataclass back. `events` has what happened, `requests` what is
asked of a rank; a process decodes what it has imported. A field may hold another frozen dataclass, or a tuple of them:
`record_of` makes these of their JSON.

JSON has no NaN and no infinity, and a loss may be either: both cross as the words "NaN", "Infinity" and "-Infinity",
and `decode` makes numbers of them where a field holds numbers. A whole number beyond what a float holds crosses as the
infinity of its sign. The same bytes go into a rank's file and over the socket.
"""

from __future__ import annotations

import json
import math
import types
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

# `nan`, `inf` and `-inf` are what jupyter_client's fallback made of them: the files of older runs have these.
# Source: jupyter_client 8.10, jsonutil.py, json_clean
_NUMBERS = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
}
# Whole numbers up to here become a float without an OverflowError; larger ones no figure of ours can be.
_LARGEST = 1 << 1023
# Of its own: a cell may put another function in the place of json.dumps.
_to_json = json.JSONEncoder(allow_nan=False).encode
_Record = TypeVar("_Record")
# What a field holds: figures, which `decode` checks; text, of which there is much; a dataclass; or anything else.
_Kind = Literal["number", "whole", "numbers", "text", "record", "any"]


class Wire:
    """Base of what crosses a process border; `type` names the class on the wire."""

    type: ClassVar[str]
    kinds: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Let `decode` find the class by its `type`."""
        Wire.kinds[cls.type] = cls


def encode(message: Any) -> dict[str, Any]:
    """Return the JSON form of a `Wire`: the dataclass's fields, and `type`; words for NaN and the infinities."""
    content: dict[str, Any] = {"type": message.type}
    for name, (kind, _) in _fields(message.type).items():
        value = getattr(message, name)
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if kind == "number":
            content[name] = _figure(value)
        elif kind == "numbers":
            content[name] = {key: _figure(item) for key, item in value.items()}
        else:
            # Text is left alone: it is most of what crosses.
            content[name] = value if kind == "text" else json_value(value)
    return content


def as_json(message: Any) -> str:
    """Return a message as strict JSON in ASCII: what `decode` reads, and every JSON parser."""
    return _to_json(encode(message))


def as_line(message: Any) -> bytes:
    """Return a message as a line of JSON, as files and pipes have it."""
    return as_json(message).encode() + b"\n"


def json_value(value: Any) -> Any:
    """Return a value as strict JSON has it.

    NaN and the infinities become words, and so does a whole number beyond the range of a float; a NumPy scalar becomes
    the number that it is. What JSON has, lists and dicts of it too, stays as it is.

    Example:
        >>> json_value({"loss": float("nan"), "steps": 3, "bounds": (1.5, float("-inf"))})
        {'loss': 'NaN', 'steps': 3, 'bounds': [1.5, '-Infinity']}
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _word(value)
    if isinstance(value, int):
        return value if -_LARGEST <= value <= _LARGEST else _word(value)
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    # NumPy's scalars, without importing NumPy for them: all but float64 are no numbers of Python's.
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return json_value(value.item())
    return value


def number_in(value: Any) -> Any:
    """Return the number that a JSON value stands for, NaN and the infinities too; what stands for none as it is.

    Example:
        >>> number_in("-Infinity"), number_in(True), number_in("many")
        (-inf, 1, 'many')
    """
    if isinstance(value, str):
        return _NUMBERS.get(value, value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return math.inf if value > 0 else -math.inf
    return value


def decode(content: dict[str, Any]) -> Any:
    """Return the dataclass of a JSON form.

    Fields that this version does not know are left out, so that a newer rank can be read.

    Raises:
        ValueError: `type` is missing or unknown, a field is missing, or one of figures holds what is no number.
    """
    wire = Wire.kinds.get(content.get("type", ""))
    if wire is None:
        raise ValueError(f"A message's type must be one of {sorted(Wire.kinds)}. Received: {content.get('type')!r}.")
    known = _fields(wire.type)
    values = {}
    for name, value in content.items():
        if name in known:
            kind, is_nullable = known[name]
            if kind == "record":
                values[name] = _part(_hints(wire)[name], value)
            else:
                values[name] = None if value is None and is_nullable else _checked(wire.type, name, kind, value)
    try:
        return wire(**values)
    except TypeError as error:
        raise ValueError(f"A {wire.type} message must have all its fields. Received: {sorted(values)}.") from error


def record_of(kind: type[_Record], content: Any) -> _Record:
    """Return the dataclass that is a part of a message, or of a file, from its JSON form.

    Fields that this version does not know are left out. Of what type each is, `runs.event_types` looks.

    Raises:
        ValueError: it is no object, or a field is missing.
    """
    if isinstance(content, kind):
        return content
    if not isinstance(content, dict):
        received = type(content).__name__
        raise ValueError(f"A {kind.__name__} must be an object. Received: {received}.")  # noqa: TRY004  as `decode`
    values = {name: _part(hint, content[name]) for name, hint in _hints(cast("Any", kind)).items() if name in content}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"A {kind.__name__} must have all its fields. Received: {sorted(values)}.") from error


def _part(hint: Any, value: Any) -> Any:
    """Return a field of a dataclass from its JSON form."""
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    is_union = get_origin(hint) in (Union, types.UnionType)
    plain = arguments[0] if is_union and len(arguments) == 1 else hint
    if value is None:
        return None
    if is_dataclass(plain) and isinstance(plain, type):
        return record_of(plain, value)
    item = get_args(plain)[0] if get_origin(plain) is tuple else None
    if is_dataclass(item) and isinstance(item, type) and isinstance(value, list | tuple):
        return tuple(record_of(item, one) for one in value)
    if plain is float:
        return number_in(value)
    return tuple(value) if isinstance(value, list) else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _figure(value: Any) -> Any:
    """Return a number as JSON has it. True and False, which Python takes for numbers and JSON does not, are 1 and 0."""
    value = json_value(value)
    return int(value) if isinstance(value, bool) else value


def _word(value: float) -> str:
    # Not math.isnan, which takes no whole number that is too large for a float.
    return "Infinity" if value > 0 else "-Infinity" if value < 0 else "NaN"


def _checked(message: str, name: str, kind: _Kind, value: Any) -> Any:
    """Return what a field holds, or raise: of a figure every consumer may take it that it is a number."""
    received: Any = value
    if kind == "number":
        received = number_in(value)
        fits = isinstance(received, int | float)
    elif kind == "numbers":
        fits = isinstance(value, dict) and all(isinstance(number_in(item), int | float) for item in value.values())
        received = {key: number_in(item) for key, item in value.items()} if fits else value
    elif kind == "whole":
        fits = isinstance(value, int) and -_LARGEST <= value <= _LARGEST
    else:
        # What is no figure is as the sender has it: a display's id, say, is whatever its cell gave.
        return tuple(value) if isinstance(value, list) else value
    if not fits:
        shown = repr(value)
        raise ValueError(
            f"{name} of a {message} message must hold: {_SAID[kind]}. Received: "
            f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}."
        )
    return received


_SHOWN = 80
_SAID: dict[_Kind, str] = {
    "number": "a number",
    "numbers": "an object of numbers",
    "whole": "a whole number",
}


@cache
def _fields(kind: str) -> dict[str, tuple[_Kind, bool]]:
    """Return, of each field of a message, what it holds, and whether it may be None."""
    return {name: _kind_of(hint) for name, hint in _hints(Wire.kinds[kind]).items()}


def _kind_of(hint: Any) -> tuple[_Kind, bool]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        plain = [argument for argument in arguments if argument is not type(None)]
        kind: _Kind = _kind_of(plain[0])[0] if len(plain) == 1 else "any"
        return kind, len(plain) < len(arguments)
    if origin is dict:
        return ("numbers" if arguments[1] is float else "any"), False
    if is_dataclass(hint):
        return "record", False
    simple: dict[Any, _Kind] = {str: "text", int: "whole", float: "number"}
    return simple.get(hint, "any"), hint is Any
