"""Checks the parameters of a run: what its user, or `fit`, says of it by name, each one JSON scalar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 200
"""How many parameters a run has at most."""
NAME_CHARACTERS = 100
TEXT_CHARACTERS = 1_000
_MOST_INTEGER = 1 << 63
_SHOWN = 60

Scalar: TypeAlias = "str | int | float | bool | None"


def checked(given: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return parameters as JSON has them.

    Args:
        given: name -> a string, a number, True, False or None, or one value of NumPy, Keras, TensorFlow or PyTorch.

    Raises:
        InvalidInput: there are too many, a name or a text is too long, or a value is something else.
    """
    if len(given) > MOST:
        raise InvalidInput(
            f"A run has at most {MOST} parameters.", f"{len(given):,}", "Log those that tell runs apart."
        )
    return {_name(name): _scalar(name, value) for name, value in given.items()}


def readable(content: object) -> dict[str, Scalar]:
    """Return the parameters in a file or an event, without those that are none."""
    if not isinstance(content, dict):
        return {}
    valid = (
        (name, value)
        for name, value in content.items()
        if isinstance(name, str) and len(name) <= NAME_CHARACTERS and _is_scalar(value)
    )
    return dict(pair for pair, _ in zip(valid, range(MOST), strict=False))


def _name(name: object) -> str:
    if isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS and name.isprintable():
        return name
    raise InvalidInput(
        f"A parameter's name is a text of 1 to {NAME_CHARACTERS} printable characters.",
        _shown(name),
        "Pass a shorter or plainer name.",
    )


def _scalar(name: str, value: Any) -> Scalar:
    plain = _plain(value)
    if _is_scalar(plain):
        return _sendable(plain) if isinstance(plain, str) else plain
    raise InvalidInput(
        f"A parameter is a number, True, False, None, or a text of at most {TEXT_CHARACTERS:,} characters.",
        f"{name}={_shown(value)}",
        "Pass one such value, e.g. float(value) or str(value)[:1000].",
    )


def _plain(value: Any) -> Any:
    """Return what a value of a library holds as Python's own; the value itself where it is no such thing."""
    for name in ("numpy", "item"):
        take = getattr(value, name, None)
        if callable(take) and not (name == "numpy" and hasattr(value, "item")):
            try:
                value = take()
            except (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError):
                # More than one value, or a tensor of a graph that is being made.
                return value
    return value


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_CHARACTERS
    if isinstance(value, int) and not isinstance(value, bool):
        return -_MOST_INTEGER <= value < _MOST_INTEGER
    return value is None or isinstance(value, bool | float)


def _sendable(text: str) -> str:
    """Return a text that UTF-8 can encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
