"""Writes the head of a program: imports, `hvd.init()`, and the classes and functions that it uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.explain import snippets
from jupyter_ddl.modernise.names import code_of, found

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a program may use by a name that it may not have imported.
_IMPORTS = {
    "itertools": "import itertools",
    "jupyter_ddl.data": "import jupyter_ddl.data",
    "keras": "import keras",
    "np": "import numpy as np",
}
_HOROVOD = "import horovod.tensorflow.keras as hvd"
_INIT = "hvd.init()  # connects the ranks"
_SEED = "keras.utils.set_random_seed(0)  # alike on all ranks, so that they shuffle alike"
_MAGIC = "__jupyter_ddl_magic_"


def with_header(module: cst.Module, used: set[str], *, sets_seed: bool) -> str:
    """Return a program with its header, after its own imports.

    Args:
        module: what `Writing` made.
        used: names of `snippets` that it uses.
        sets_seed: the program sets its random seeds itself.
    """
    end = _end_of_imports(module.body)
    head, rest = module.body[:end], module.body[end:]
    own = module.with_changes(body=head, footer=[]).code.strip("\n")
    if not head:
        own = "".join(map(code_of, module.header)).strip("\n")
    program = module.with_changes(header=[], body=rest).code.strip("\n")
    defined = [text.strip("\n") for name, text in snippets.BY_NAME.items() if name in used]
    begin = [_INIT] if sets_seed else [_INIT, _SEED]
    uses = "\n".join([*begin, *defined, program])
    known = {name for statement in head for name in _imported(statement)}
    missing = [line for name, line in _IMPORTS.items() if name not in known and _is_used(name, uses)]
    start = "\n".join([*sorted([_HOROVOD, *missing]), "", *begin])
    if not defined:
        return "\n\n".join(filter(None, [own, start, program])) + "\n"
    return "\n\n".join(filter(None, [own, start])) + "".join(f"\n\n\n{part}" for part in [*defined, program]) + "\n"


def _end_of_imports(body: Sequence[cst.BaseStatement]) -> int:
    """Return after which statement a program's own imports end; what sets the environment may be among them."""
    end = 0
    for place, statement in enumerate(body):
        if _imported(statement) or _is_first_word(statement, place):
            end = place + 1
        elif not code_of(statement).strip().startswith(("os.environ", _MAGIC)):
            break
    return end


def _is_first_word(statement: cst.BaseStatement, place: int) -> bool:
    """Return whether a statement must stay the first: a docstring, or a cell's magic."""
    return place == 0 and code_of(statement).strip().startswith(('"', "'", _MAGIC))


def _imported(statement: cst.BaseStatement) -> set[str]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    names = {
        alias.evaluated_alias or alias.evaluated_name.partition(".")[0] for alias in found(statement, cst.ImportAlias)
    }
    return names or {"*" for _ in found(statement, cst.ImportStar)}


def _is_used(name: str, code: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(name)}\.", code))
