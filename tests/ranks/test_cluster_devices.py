"""Each rank sees its own GPU and no other. The GPUs are a stand-in NVML's: TensorFlow then finds none, and computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kernels import kernel, without
from nvml import build_nvml, h200s

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

UUIDS = [gpu.uuid for gpu in h200s(4)]
SEEN = """
import jupyter_ddl
with jupyter_ddl.start({arguments}, name="gpus") as s:
    result = s.run("import os\\nprint(os.environ['CUDA_VISIBLE_DEVICES'], end='')")
    answer = [result.ranks[rank].stdout for rank in sorted(result.ranks)], [ready.device for ready in s.ranks]
"""


@pytest.mark.parametrize(
    ("arguments", "visible", "expected"),
    [
        ("gpus='1,3'", None, ["1", "3"]),
        (f"gpus={UUIDS[2:]}", None, ["2", "3"]),
        ("n=2", f"{UUIDS[3]},{UUIDS[0]}", ["3", "0"]),
        ("n=2, gpus='2', oversubscribe=True", "2,3", ["2", "2"]),
        ("n=2, gpus='none'", None, ["", ""]),
    ],
)
def test_a_rank_sees_its_own(tmp_path: Path, arguments: str, visible: str | None, expected: list[str]) -> None:
    variables = build_nvml(tmp_path, h200s(4)) | without(tmp_path, "tensorflow")
    if visible is not None:
        variables["CUDA_VISIBLE_DEVICES"] = visible
    with kernel(variables) as other:
        seen, devices = other.do(SEEN.format(arguments=arguments))
    assert seen == expected
    assert all(
        (f"GPU {device}" in told if device else told == "CPU") for device, told in zip(expected, devices, strict=True)
    )
