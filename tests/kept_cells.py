"""A process whose cells are kept, or one that has what was kept: `python kept_cells.py save|load FOLDER < CELLS`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl.engine.kept_variables.rank_variables import RankVariables

_MARK = "told:"


def in_process(mode: str, folder: Path, *cells: str) -> Any:
    """Run cells in a new process and save what they define, or load that and run cells; return what they set `answer`
    to, and what is printed of the variables."""
    argv = [sys.executable, __file__, mode, str(folder)]
    quiet = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        argv, input=json.dumps(cells), capture_output=True, text=True, env=quiet, timeout=300, check=False
    )
    (line,) = [line for line in run.stdout.splitlines() if line.startswith(_MARK)] or [run.stdout + run.stderr]
    assert line.startswith(_MARK), line
    return json.loads(line[len(_MARK) :])


def main() -> None:
    mode, folder, cells = sys.argv[1], Path(sys.argv[2]), json.load(sys.stdin)
    shell = InteractiveShell.instance()
    variables = RankVariables(shell, {"rank": 0})
    told: Any = None
    if mode == "load":
        told = variables.stage(folder, ())
        variables.use(is_wanted=True)
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
    answer = shell.user_ns.pop("answer", None)
    if mode == "save":
        told = variables.save(folder)
    print(_MARK + json.dumps([answer, told]))


if __name__ == "__main__":
    main()
