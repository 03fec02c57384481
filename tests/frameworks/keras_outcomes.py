"""Runs programs of Keras's as somebody would, and takes what each leaves behind, on whatever backend Keras has.

Runs in a process of its own, `python keras_outcomes.py FILE PROGRAM...`, and in a cell on the ranks.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
OF_THIS_BACKEND = Path(__file__).parent / "keras_programs"
OF_ANY = TESTS / "auto_programs"


def outcome_of(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return what a program leaves behind; it runs in a folder that all ranks share, or one of its own."""
    sys.path.append(str(TESTS / "ranks" / "auto"))
    try:
        from auto_programs import run_in
    finally:
        sys.path.pop()
    programs = OF_THIS_BACKEND if (OF_THIS_BACKEND / f"{name}.py").is_file() else OF_ANY
    where = Path(tempfile.mkdtemp()) if folder is None else folder
    where.mkdir(parents=True, exist_ok=True)
    found = run_in(where, name, programs)
    return {
        "weights": found.weights,
        "history": found.history,
        "results": found.results,
        "predictions": found.predictions,
        "drawn": found.names.get("drawn_here"),
    }


if __name__ == "__main__":
    outcomes: dict[str, Any] = {}
    for each in sys.argv[2:]:
        try:
            outcomes[each] = outcome_of(each)
        except Exception:  # noqa: BLE001 (whatever it is, the test says it)
            outcomes[each] = {"raised": traceback.format_exc()}
    Path(sys.argv[1]).write_bytes(pickle.dumps(outcomes))
