"""Each rank sees its own GPU and no other. The GPUs are a stand-in NVML's: TensorFlow then finds none, and computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nvml import build_nvml, h200s
from ranks.kernels import kernel, without

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


# Which GPUs are chosen is tests/pure/test_spec.py's; that each rank gets its own, the test below has too.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "visible", "expected"),
    [
        ("n=2", f"{UUIDS[3]},{UUIDS[0]}", ["3", "0"]),
        ("gpus='1,3'", None, ["1", "3"]),
        (f"gpus={UUIDS[2:]}", None, ["2", "3"]),
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


TWO = """
import jupyter_ddl
from jupyter_ddl.errors import InvalidInput
def refused(call):
    try: call()
    except InvalidInput as error: return str(error)
a = jupyter_ddl.start(n=2, name="a")
b = jupyter_ddl.start(gpus="0", name="b")
seen = a.run("import os; print(os.environ['CUDA_VISIBLE_DEVICES'], end='')")
answer = [
    [seen.ranks[rank].stdout for rank in sorted(seen.ranks)], [ready.device for ready in a.ranks],
    refused(lambda: jupyter_ddl.start(gpus="2,3", name="c")),
    refused(lambda: b.restart(gpus='0,1', n=2)),
    b.run("rank").outcome,
]
b.restart(gpus="1", oversubscribe=True)
answer += [b.note, a.run("rank").outcome, b.run("rank").outcome]
a.stop()
answer += [b.run("rank").outcome]
b.stop()
"""


def test_each_rank_has_its_own_and_one_of_another_cluster_is_named_before_anything_starts_or_ends(
    tmp_path: Path,
) -> None:
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(UUIDS[index] for index in (2, 1, 0, 3))}
    with kernel(build_nvml(tmp_path, h200s(4)) | without(tmp_path, "tensorflow") | visible) as other:
        seen, devices, started, restarted, *outcomes = other.do(TWO)
        assert not other.descendants()
        holder = f"is used by the cluster 'a' of pid {other.process.pid}. Choose others with --gpus, "
    assert seen == ["2", "1"]
    assert all(f"GPU {device}" in told for device, told in zip(seen, devices, strict=True))
    assert started.startswith(f"Clusters must not share a GPU. Received: GPU 2 {holder}")
    assert restarted.startswith(f"Clusters must not share a GPU. Received: GPU 1 {holder}")
    kept, note, *after = outcomes
    assert kept == "finished"
    assert note.endswith(f" each. GPU 1 is shared with the cluster 'a' of pid {other.process.pid}.")
    # So does the second when the first is stopped.
    assert after == ["finished"] * 3
