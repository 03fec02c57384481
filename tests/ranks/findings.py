"""What a test program measures on every rank of an MPI job: a finding is a function whose answer goes to the test.

Each `@finding` runs on all ranks, in the order of definition; its answer (JSON) goes to FOLDER/rank-K.json under its
name, for `numerics_world.World`. One that raises leaves its traceback there, and the next begins with Horovod anew.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

import jupyter_ddl.keras as hvd
from jupyter_ddl.errors import DdlError

FOLDER = Path(sys.argv[1])
# Whether the process is a rank of ours, which others use after this (numerics_on_ranks.py).
IS_SHARED = "shared" in sys.argv[2:]
HANGS_S = 270.0
FINDINGS: dict[str, Any] = {}


def finding(function: Any) -> Any:
    FINDINGS[function.__name__] = function
    return function


def take_all(**init: Any) -> None:
    """Initialise Horovod and take every finding; the last thing that a program does."""
    if not IS_SHARED:
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        # As on a rank of ours (jupyter_ddl/engine/preload.py).
        gc.freeze()
    hvd.init(**init)
    answers = {}
    for name, function in FINDINGS.items():
        try:
            answers[name] = {"found": function()}
        except Exception:  # noqa: BLE001 (whatever it is, the test says it)
            # The other ranks may wait for this one in a collective: this lets them go.
            hvd.shutdown()
            answers[name] = {"raised": traceback.format_exc()}
        if any(MPI.COMM_WORLD.allgather("raised" in answers[name])):
            hvd.shutdown()
            hvd.init(**init)
    (FOLDER / f"rank-{MPI.COMM_WORLD.rank}.json").write_text(json.dumps(answers))


def error_text(function: Any) -> str | None:
    try:
        function()
    except DdlError as error:
        return str(error)
    return None


def printed(function: Any, stream: str = "stdout") -> str:
    """Return what a function prints."""
    redirect = contextlib.redirect_stdout if stream == "stdout" else contextlib.redirect_stderr
    with redirect(io.StringIO()) as text:
        function()
    return text.getvalue()
