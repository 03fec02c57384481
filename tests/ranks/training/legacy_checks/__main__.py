"""Runs every check in one process: `python -m legacy_checks ANSWERS.json`.

With JUPYTER_DDL_LEGACY=0 the answers tell what Keras itself does.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path

import jupyter_ddl.legacy

jupyter_ddl.legacy.install()
loaded_early = [name for name in ("tensorflow", "keras") if name in sys.modules]

import tensorflow as tf  # noqa: E402

from legacy_checks import (  # noqa: E402
    CHECKS,
    REFUSALS,
    files,
    layer_side,
    model_side,
    name_side,
    optimizer_side,
    restored_side,
    session_side,
    symbolic_side,
)

assert files
assert layer_side
assert model_side
assert name_side
assert optimizer_side
assert restored_side
assert session_side
assert symbolic_side


# What these look at lies around Keras's steps; traced, a fit of a new model takes three times as long.
AROUND_THE_STEPS = (files.__name__, model_side.__name__)


def run(function: object) -> str | None:
    """Return the error that a check raised, as text."""
    tf.config.run_functions_eagerly(function.__module__ in AROUND_THE_STEPS)
    try:
        function()  # type: ignore[operator]
    except Exception as error:  # noqa: BLE001  a check may fail in any way; the test shows it
        if "--traceback" in sys.argv:
            traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message="Even though the `tf.config.experimental_run_functions_eagerly`")
    # Of how Keras itself writes an .h5 file, and turns a picture.
    warnings.filterwarnings("ignore", message="Please import `affine_transform`")
    warnings.filterwarnings("ignore", message="__array__ implementation doesn't accept a copy keyword")
    found = {"loaded early": loaded_early, "rows": {}, "refusals": {}}
    for row, function in CHECKS.items():
        error = run(function)
        found["rows"][row] = {"error": error, "said": row in jupyter_ddl.legacy.printed_rows()}
    for name, function in REFUSALS.items():
        found["refusals"][name] = run(function)
    jupyter_ddl.legacy.install()
    found["said"] = jupyter_ddl.legacy.printed_rows()
    Path(sys.argv[1]).write_text(json.dumps(found))


main()
