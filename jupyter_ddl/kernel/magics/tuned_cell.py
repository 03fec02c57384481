"""Tunes a cell: `%%distributed --tune` runs it as a script on ranks of its own, a few steps at a time.

The cluster's ranks keep their variables, so that nothing which the notebook has trained is changed. Runs on: kernel.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from jupyter_ddl.errors import DdlError
from jupyter_ddl.host.process_tree import parent_death_signal


def tune_cell(cell: str, ranks: int, kinds: str, *, auto: bool) -> None:
    """Try what can change the exchange of a cell's training, and print the table and the line to set.

    Args:
        cell: makes its data and its model itself: other cells have not run on the ranks that try it.
        ranks: on which it is tried, on this host.
        kinds: of settings, with commas between them; "" for all.
        auto: it is distributed by `--auto`.

    Raises:
        DdlError: it failed; says what it printed last.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-tune-") as folder:
        script = Path(folder, "cell.py")
        script.write_text(cell)
        command = [sys.executable, "-m", "jupyter_ddl.cli", "tune", "--cell", "-n", str(ranks), "--only", kinds]
        command += ["--run-options", "--auto"] if auto else []
        with subprocess.Popen(
            [*command, str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # It ends with this kernel, and its ranks with it.
            preexec_fn=parent_death_signal(signal.SIGTERM),
        ) as tuning:
            assert tuning.stdout is not None
            try:
                for printed in tuning.stdout:
                    print(printed.replace(str(script), "SCRIPT.py"), end="", flush=True)
            except KeyboardInterrupt:
                tuning.terminate()
                raise
    if tuning.returncode:
        raise DdlError("The cell was not tuned: what it printed says why. It must make its data and its model itself.")
