"""The notebook for Binder and Codespaces, in a kernel as they run it, and how much memory it takes there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "try-it.ipynb"
# What mybinder.org gives a user is 2 GB, of which JupyterLab takes some.
SERVER_MIB = 200
GIVEN_MIB = 2048


class _Memory(threading.Thread):
    """Looks at what a process and all below it use together, until `end`."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process = psutil.Process(pid)
        self._is_over = threading.Event()
        self.peak_mib = 0.0

    def run(self) -> None:
        while not self._is_over.wait(0.2):
            used = sum(map(_pss_mib, [self._process, *self._process.children(recursive=True)]))
            self.peak_mib = max(self.peak_mib, used)

    def end(self) -> None:
        self._is_over.set()
        self.join()


def _pss_mib(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss / 2**20)
    except psutil.NoSuchProcess:
        return 0.0


def _text_of(cell: Any) -> str:
    outputs = cell.get("outputs", [])
    return "\n".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_two_ranks_train_and_fail_in_what_binder_gives(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    with client.setup_kernel():
        memory = _Memory(client.km.provisioner.pid)
        memory.start()
        try:
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
        finally:
            memory.end()
    cells = {cell.id: cell for cell in notebook.cells}
    assert "there are 2 ranks" in _text_of(cells["both"])
    assert "Distributed over 2 ranks" in _text_of(cells["train"])
    assert int(_text_of(cells["accuracy"]).partition("%")[0][-3:]) >= 95, cells["accuracy"]
    [error] = [output for output in cells["fail"].outputs if output.output_type == "error"]
    assert "a broken image" in error.evalue
    assert "the model still knows" in _text_of(cells["after"])
    assert memory.peak_mib < GIVEN_MIB - SERVER_MIB
