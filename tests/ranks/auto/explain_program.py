"""Each case as it stands under `--auto`, and then as `--explain` writes it out, without: what both come to."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import keras
import numpy as np
from explain_cases import CASES, OPTIONS
from findings import FOLDER, finding, take_all

import jupyter_ddl
import jupyter_ddl.keras as hvd
from jupyter_ddl.engine import rank_state
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.explain import explain


def ran(code: str) -> dict[str, Any]:
    keras.utils.clear_session()  # the names of metrics begin anew, as in a new process
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "a program", "exec"), names)
    return names


@finding
def cases() -> dict[str, Any]:
    found = {}
    for name in json.loads((FOLDER / "cases.json").read_text()):
        code = CASES[name]
        jupyter_ddl.auto(**OPTIONS[name])
        with contextlib.redirect_stdout(io.StringIO()) as told:
            auto = ran(code)
        rank_state.here().cells.begin(Cell(hvd.size()))
        explanation = explain(code, world_size=hvd.size(), **OPTIONS[name])
        explicit = ran(explanation.program)
        weights = [program["model"].get_weights() for program in (auto, explicit)]
        found[name] = {
            "difference": max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(*weights, strict=True)),
            "moved": max(float(np.max(np.abs(a - b))) for a, b in zip(auto["start"], weights[0], strict=True)),
            "results": [np.asarray(program["result"], np.float64).tolist() for program in (auto, explicit)],
            "plans": [told.getvalue().splitlines(), explanation.plan],
        }
    return found


take_all()
