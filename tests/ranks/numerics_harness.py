"""Findings: what the numerics programs measure on every rank.

A `@finding` runs on all ranks, in the order of definition; its answer (JSON) goes to FOLDER/rank-K.json under its name.
One that raises, on any rank, leaves its traceback there instead, and the next begins with Horovod started again.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

import jupyter_ddl.keras as hvd

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(sys.argv[1])
# Whether the process is a rank of ours, which others use after this (numerics_on_ranks.py).
IS_SHARED = "shared" in sys.argv[2:]
HANGS_S = float(os.environ.get("NUMERICS_HANGS_S", "270"))
FINDINGS: dict[str, Callable[[], Any]] = {}


def finding(function: Callable[[], Any]) -> Callable[[], Any]:
    FINDINGS[function.__name__] = function
    return function


def take_all() -> None:
    """Take every finding; the last thing that a numerics program does."""
    if not IS_SHARED:
        # A rank that hangs says where.
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        # As on a rank of ours (jupyter_ddl/engine/preload.py).
        gc.freeze()
    hvd.init()
    answers: dict[str, Any] = {}
    for name, function in FINDINGS.items():
        answers[name] = take(function)
        (FOLDER / f"rank-{MPI.COMM_WORLD.rank}.json").write_text(json.dumps(answers))


def take(function: Callable[[], Any]) -> dict[str, Any]:
    start = time.monotonic()
    try:
        answer = {"found": function()}
    except Exception:  # noqa: BLE001 (whatever it is, the test says it)
        # The other ranks may wait for this one in a collective: this lets them go.
        hvd.shutdown()
        answer = {"raised": traceback.format_exc()}
    if any(MPI.COMM_WORLD.allgather("raised" in answer)):
        hvd.shutdown()
        hvd.init()
    answer["seconds"] = time.monotonic() - start
    in_precision("float32")
    keras.utils.clear_session()
    return answer


def in_precision(dtype: str) -> None:
    """Make Keras build in `dtype`: set_floatx alone leaves layers at the dtype policy's float32."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
