"""Runs a program of findings within a rank that others share, as if the process were the program's own.

`numerics_world.run_within` has a cell call it. TensorFlow is imported there already.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import keras

import jupyter_ddl.keras as hvd
from jupyter_ddl.engine import rank_state
from jupyter_ddl.training import spellings

HERE = Path(__file__).parent


def run(program: str, folder: str) -> None:
    """Run `program FOLDER shared`, and forget its modules: the next program has modules of the same names."""
    argv, path, modules = sys.argv, list(sys.path), set(sys.modules)
    # What is printed once a process is printed for each program.
    told = rank_state.here().part(spellings._Told).spellings
    told.clear()
    sys.argv = [program, folder, "shared"]
    sys.path[:0] = [str(Path(program).parent), str(HERE)]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(HERE)):
                del sys.modules[name]
        told.clear()
        hvd.shutdown()  # forgets its process sets
        keras.utils.clear_session()
