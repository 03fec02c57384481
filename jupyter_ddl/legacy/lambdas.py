"""Loads Lambda layers from files with the program's own functions of the names in the file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.legacy.notices import say
from jupyter_ddl.legacy.wrapping import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

# What of a Lambda's configuration may be a function.
_FUNCTIONS = ("function", "output_shape", "mask")


def patch_loading(keras: ModuleType) -> None:
    """Have a Lambda that is loaded find the functions of the program that loads it, by the names in the file.

    Keras 2 loaded the function's code from the file, which Keras 3 refuses with reason. The program's function of that
    name is taken instead, so that no code of a file is run.
    """
    wrap(keras.layers.Lambda, "from_config", _from_config)


def _from_config(
    stock: Callable[..., Any], cls: type, config: dict[str, Any], custom_objects: Any = None, **kwargs: Any
) -> Any:
    own = dict(_of_program(config, custom_objects))
    return stock(cls, config, custom_objects={**own, **(custom_objects or {})}, **kwargs)


def _of_program(config: dict[str, Any], custom_objects: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions that a configuration names and the program has, but for those that Keras itself finds."""
    from keras.saving import get_registered_object

    program = vars(sys.modules["__main__"])
    for key in _FUNCTIONS:
        value = config.get(key)
        name = value.get("config") if isinstance(value, dict) and value.get("class_name") == "function" else None
        if isinstance(name, str) and callable(program.get(name)) and not get_registered_object(name, custom_objects):
            say("functions of a Lambda")
            yield name, program[name]
