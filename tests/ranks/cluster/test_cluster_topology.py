"""The ranks read how the GPUs of their host are joined, by a stand-in NVML; tables and the records of runs have it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from nvml import build_nvml, h200s
from ranks.kernels import kernel, without

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

SHOWN = """
import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.magics.ddl import DdlMagics

def printed(line):
    with redirect_stdout(StringIO()) as text:
        DdlMagics(None).ddl(line)
    return text.getvalue()

lines = ("start -n 2 --name topology --topology", "status --topology", "status", "attach topology --topology")
answer = [printed(line) for line in lines]
ran = current.current().run("1")
answer.append(json.loads((Path(ran.folder) / "run.json").read_text())["topology"])
printed("stop")
"""


def test_tables_and_records_have_what_the_ranks_read(tmp_path: Path) -> None:
    joined = [replace(gpu, nvlinks=(1 - at,) * 4, numa=at, cores=(2 * at,)) for at, gpu in enumerate(h200s(2))]
    with kernel(build_nvml(tmp_path, joined) | without(tmp_path, "tensorflow")) as other:
        started, status, short, attached, topology = other.do(SHOWN)
    (recorded,) = topology["gpus"]
    table = "      GPU0  GPU1  NUMA  cores\nGPU0  X     NV4   0     0\nGPU1  NV4   X     1     2\n"
    for text in (started, status, attached):
        assert f": 2 GPUs (NVIDIA H200)\n{table}" in text
        assert text.rstrip().endswith("NV4: 4 NVLinks.")
    assert "NVLink" not in short
    assert [gpu["paths"] for gpu in recorded["gpus"]] == [["X", "NV4"], ["NV4", "X"]]
    assert recorded["no_gpus"] is None
