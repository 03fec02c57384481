"""Encodes and decodes what crosses a process border: frozen dataclasses of JSON values, by msgspec.

`encode` gives a dict with a `type`, `as_line` a line of JSON. `decode` gives the dataclass back: one of those that
cross the border where it is called, every field of the type that its class says, and of a newer version's fields those
that this one knows. `record_of` does so for a dataclass that is a part of a message, or of a file.

JSON has no NaN and no infinity, and a loss may be either: both cross as the words "NaN", "Infinity" and "-Infinity",
and `decode` makes numbers of them where a field holds numbers. A whole number beyond what a float holds crosses as the
infinity of its sign. The same bytes go into a rank's file and over the socket.

msgspec reads and writes no such words, no halves of surrogate pairs, and no NumPy; what has any of these takes the
slower path through Python's own json. Compared with our earlier codec and with pydantic (benchmarks/fan_in.py): msgspec
takes 3 and 2 us to write and read a sample, pydantic 2 and 4 without these checks, ours took 20 and 20.
"""

from __future__ import annotations

import json
import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from jupyter_ddl.protocol.untrusted_json import may_be_deep, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""The range of JSON's integers in the other programs that read our files."""

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
# Whole numbers up to here become a float without an OverflowError; no figure of ours is larger.
_LARGEST = 1 << 1023
_SHOWN = 60
# An encoder of our own: a cell may replace json.dumps.
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_to_bytes = msgspec.json.Encoder().encode
_Record = TypeVar("_Record")


class Wire:
    """Base of what crosses a process border; `type` names the class on the wire."""

    type: ClassVar[str]


class _Tag(msgspec.Struct):
    type: str


_read_tag = msgspec.json.Decoder(_Tag).decode


def encode(message: Any) -> dict[str, Any]:
    """Return the JSON form of a `Wire`: the dataclass's fields, and `type`; words for NaN and the infinities."""
    content: dict[str, Any] = {"type": message.type}
    for name, hint in _hints(message.__class__).items():
        value = getattr(message, name)
        if hint == dict[str, float]:
            content[name] = {key: _figure(item) for key, item in value.items()}
        else:
            content[name] = _figure(value) if _plain(hint) is float else json_value(value)
    return content


def as_json(message: Any) -> bytes:
    """Return a message as strict JSON: what `decode` reads, and every JSON parser."""
    head, figures = _layout(message.__class__)
    if head and all(map(_is_figure, figures(message))):
        try:
            return head + _to_bytes(message)[1:]
        except (TypeError, UnicodeEncodeError):
            # A NumPy scalar, or half of a surrogate pair.
            pass
    return _to_json(encode(message)).encode()


def as_line(message: Any) -> bytes:
    """Return a message as a line of JSON, as files and pipes have it."""
    return as_json(message) + b"\n"


def json_value(value: Any) -> Any:
    """Return a value as strict JSON has it.

    NaN and the infinities become words, and so does a whole number beyond the range of a float; a NumPy scalar becomes
    the number that it is, and a dataclass an object of its fields. What JSON has, lists and dicts of it too, is not
    changed.

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
    if is_dataclass(value) and not isinstance(value, type):
        # dataclasses.asdict copies deeply: 30 us for a cell's options, of which each cell sends and records its own.
        return {name: json_value(getattr(value, name)) for name in _hints(type(value))}
    # NumPy's scalars, without importing NumPy for them: only float64 is a Python number too.
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


def decode(data: bytes | str | dict[str, Any], border: Any) -> Any:
    """Return the dataclass of a message.

    Args:
        data: its JSON, or what a parser made of that.
        border: the classes that cross the border where it arrived, as a union: `Event`, `Request` ...

    Raises:
        ValueError: it is not JSON, its `type` is missing or none of the border's, or a field is missing or not of the
            type that its class says.
    """
    if isinstance(data, bytes | str):
        try:
            if not may_be_deep(data):
                return _readers(border)[_read_tag(data).type](data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError):
            # msgspec may read it differently from us; if it is wrong, the code below raises an error that says how.
            pass
        try:
            content = parse_json(data)
        except ValueError as error:
            raise ValueError(f"A message must be JSON. Received: {data[:_SHOWN]!r}.") from error
    else:
        content = data
    kind = _kind_of(content, border)
    return _converted(kind, content, f"A {kind.type} message")


def _kind_of(content: Any, border: Any) -> Any:
    is_object = isinstance(content, dict)
    received = repr(content.get("type")) if is_object else type(content).__name__
    for kind in _kinds(border):
        if is_object and kind.type == content.get("type"):
            return kind
    known = sorted(kind.type for kind in _kinds(border))
    raise ValueError(f"A message's type must be one of {known}. Received: {received[:_SHOWN]}.")


def record_of(kind: type[_Record], content: Any) -> _Record:
    """Return the dataclass that is a part of a message, or of a file, from its JSON form.

    Fields that this version does not know are left out.

    Raises:
        ValueError: it is no object, or a field is missing or not of the type that its class says.
    """
    record: _Record = content if isinstance(content, kind) else _converted(kind, content, f"A {kind.__name__}")
    return record


def _converted(kind: Any, content: Any, named: str) -> Any:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError:
        # Words may stand where numbers are meant.
        try:
            return msgspec.convert(_numbered(kind, content), kind)
        except msgspec.ValidationError as error:
            raise ValueError(f"{named} must be what its class says. Received: {error}.") from error


def _numbered(hint: Any, value: Any) -> Any:
    """Return a JSON value with numbers in place of the words for them, where its type has numbers."""
    hint = _plain(hint)
    if hint is float:
        return number_in(value)
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(value, dict):
        hints = _hints(hint)
        return {name: _numbered(hints[name], item) for name, item in value.items() if name in hints}
    if get_origin(hint) is dict and isinstance(value, dict):
        return {key: _numbered(get_args(hint)[1], item) for key, item in value.items()}
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return [_numbered(get_args(hint)[0], item) for item in value]
    return value


@cache
def _kinds(border: Any) -> tuple[Any, ...]:
    return get_args(border) or (border,)


@cache
def _readers(border: Any) -> dict[str, Any]:
    """Return `type` -> what reads the JSON of that class, of each class of a border."""
    return {kind.type: msgspec.json.Decoder(kind).decode for kind in _kinds(border)}


@cache
def _layout(kind: Any) -> tuple[bytes, Callable[[Any], list[Any]]]:
    """Return how a message's JSON begins where msgspec may write the rest, and what lists its figures.

    The beginning is empty for a class that has fields in which NaN may stand anywhere.
    """
    hints = {name: _plain(hint) for name, hint in _hints(kind).items()}
    simple = {str, int, bool, float, dict[str, str], dict[str, float], tuple[str, ...], tuple[int, ...]}
    is_simple = all(hint in simple or get_origin(hint) is Literal for hint in hints.values())
    head = f'{{"type":"{kind.type}"{"," if hints else ""}'.encode() if is_simple else b""
    names = [name for name, hint in hints.items() if hint is float]
    tables = [name for name, hint in hints.items() if hint == dict[str, float]]

    def figures(message: Any) -> list[Any]:
        found = [getattr(message, name) for name in names]
        for name in tables:
            found += getattr(message, name).values()
        return found

    return head, figures


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _plain(hint: Any) -> Any:
    """Return a type without None."""
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    return arguments[0] if get_origin(hint) in (Union, types.UnionType) and len(arguments) == 1 else hint


def _is_figure(value: Any) -> bool:
    """Return whether JSON has this as Python has it. What is whole is written as `decode` gives it: 1.0."""
    return value is None or (type(value) is float and math.isfinite(value))


def _figure(value: Any) -> Any:
    """Return a number as JSON has it: what is whole as a float, and so are True and False, numbers to Python alone."""
    value = json_value(value)
    return float(value) if isinstance(value, int) else value


def _word(value: float) -> str:
    # Not math.isnan, which takes no whole number that is too large for a float.
    return "Infinity" if value > 0 else "-Infinity" if value < 0 else "NaN"
