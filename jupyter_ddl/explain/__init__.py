"""Shows what `--auto` does to a program, and writes the same program out in explicit Horovod: `--explain`.

| module | owns |
|---|---|
| explanation | `explain` and `render`: from the code to the plan and the program |
| names, calls, data_kinds, origins | what names, arguments and data are, as far as the code says it |
| reading, written | what the code calls, and what of it cannot be written out; a last look at what was written |
| settings | what `--auto` would do: kinds of data, learning rates, warm-up |
| models, steps | which models the code trains, with which optimizers and steps |
| differences | what gives another result on several ranks |
| plan | the plan's lines |
| writing, fitting, comments | the rewriting: statements, calls of fit, the comments inside them |
| header, snippets | what a program gets of imports, classes and functions |

Programs are read by libcst, which comes with the extra `modernise`. Runs on: kernel, or a terminal. Nothing is
executed, and nothing imported, of the program.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from jupyter_ddl.explain.explanation import Explanation, explain, render

__all__ = ["Explanation", "explain", "render"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, once it is: libcst need not be there for --auto itself."""
    if name not in __all__:
        raise AttributeError(name)
    if importlib.util.find_spec("libcst") is None:
        raise InvalidInput(
            "--explain takes libcst.", "an environment without it", "Run: pip install 'jupyter_ddl[modernise]'"
        )
    from jupyter_ddl.explain import explanation

    return getattr(explanation, name)
