"""What a rank's process gets before TensorFlow is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest
from nvml import build_nvml, h200s

from jupyter_ddl.engine import devices, gpu
from jupyter_ddl.engine.devices import Pinned, configure_tensorflow, pin
from jupyter_ddl.engine.world import World
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.paths import BIND_VARIABLE, DEVICE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    DEVICE_VARIABLE,
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
)


@pytest.fixture(autouse=True)
def kept_to(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Return what the process is told to keep to; nine cores, and nothing set before or afterwards."""
    kept: list[set[int]] = []
    monkeypatch.setattr(devices, "keep_to", kept.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(9)))
    monkeypatch.setenv(BIND_VARIABLE, "")
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back also where pin sets it
        monkeypatch.delenv(name)
    monkeypatch.setattr(devices, "share_of_cores", lambda local_rank, local_size: 9 // local_size)
    return kept


def now() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES}


def test_a_rank_on_the_cores() -> None:
    assert pin([], 1, 2) == Pinned("CPU", 4)
    assert now() == {
        "CUDA_VISIBLE_DEVICES": "",
        DEVICE_VARIABLE: "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_NUM_INTRAOP_THREADS": "4",
        "TF_NUM_INTEROP_THREADS": "4",
        "OMP_NUM_THREADS": "4",
    }


def test_a_rank_of_pytorchs_sees_all_gpus_of_its_host_and_begins_with_its_own() -> None:
    pin(["2", "5"], 1, 2, 1, for_torch=True)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,5"
    assert gpu.own_device() == "5"
    chosen: list[int] = []
    waiting: list[Callable[[], None]] = []
    cuda = types.SimpleNamespace(current_device=lambda: 0, set_device=chosen.append, _lazy_call=waiting.append)
    devices._choose_in_torch(1, cuda)  # type: ignore[arg-type]
    assert not chosen
    waiting[0]()
    assert chosen == [1]
    cuda.current_device = lambda: 3
    waiting[0]()
    assert chosen == [1], "the program has chosen"


def test_ranks_of_pytorchs_that_share_a_gpu_see_it_once() -> None:
    pin(["2", "2"], 1, 2, 1, for_torch=True)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert gpu.own_device() == "2"


def test_a_rank_on_a_gpu() -> None:
    assert pin(["3", "GPU-1a", "MIG-c1"], 1, 3, 6) == Pinned("GPU GPU-1a", 6)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1a"
    assert os.environ["TF_NUM_INTRAOP_THREADS"] == "6"


class Node:
    """The ranks of a host, of which all keep to as many cores as this one: a communicator."""

    def __init__(self, rank: int, claimed: bool) -> None:
        self._is_first, self._claimed = rank == 0, claimed

    def gather(self, cores: set[int]) -> list[set[int]] | None:
        return [cores] if self._is_first else None

    def bcast(self, is_free: bool | None) -> bool:
        assert (is_free is None) is not self._is_first
        return self._claimed if is_free is None else is_free


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("gpus", "ranks", "threads", "bind", "is_free", "is_kept"),
    [
        ([], 9, None, "", True, True),
        ([], 9, None, "", False, False),  # other ranks have them
        ([], 9, None, "1", False, True),  # the user wants it
        ([], 9, 2, "", True, False),  # more threads than the share has
        ([], 9, None, "0", True, False),
        ([], 12, None, "", True, True),
        (["0", "1"], 2, None, "", True, False),
    ],
)
def test_ranks_without_a_gpu_keep_to_their_share_where_no_others_do(
    kept_to: list[set[int]],
    monkeypatch: pytest.MonkeyPatch,
    rank: int,
    gpus: list[str],
    ranks: int,
    threads: int | None,
    bind: str,
    is_free: bool,
    is_kept: bool,
) -> None:
    monkeypatch.setenv(BIND_VARIABLE, bind)
    monkeypatch.setattr(devices, "share_of_cores", lambda local_rank, local_size: max(1, 9 // local_size))
    # No topology file is read for a core that this machine may not have.
    monkeypatch.setattr(devices, "cores_of", lambda rank, size: {rank % 9})
    claimed: list[set[int]] = []
    monkeypatch.setattr(devices, "claim", lambda cores: claimed.append(cores) or is_free)
    world = World(rank, ranks, rank, ranks, "here", 4711, None, Node(rank, is_free))
    devices.keep_to_share(world, pin(gpus, rank, ranks, threads))
    assert kept_to == ([{rank}] if is_kept else [])
    may_claim = rank == 0 and not gpus and bind != "0" and threads is None
    assert claimed == ([{rank}] if may_claim else []), "the first rank of a host claims for all, and nothing in vain"


def test_a_rank_alone_on_its_host_keeps_to_no_core(kept_to: list[set[int]]) -> None:
    devices.keep_to_share(World(0, 1, 0, 1, "here", 4711, None), pin([], 0, 1))
    assert kept_to == []


def test_what_the_user_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    users = {
        "CUDA_DEVICE_ORDER": "FASTEST_FIRST",
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_NUM_INTRAOP_THREADS": "5",
        "TF_NUM_INTEROP_THREADS": "2",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in users.items():
        monkeypatch.setenv(name, value)
    assert pin(["0"], 0, 1).threads == 5
    assert now() == users | {"CUDA_VISIBLE_DEVICES": "0", DEVICE_VARIABLE: "0"}


def test_threads_that_were_asked_for_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "5")
    assert pin([], 0, 1, 2).threads == 2
    assert os.environ["TF_NUM_INTRAOP_THREADS"] == "2"


def test_a_rank_without_a_device() -> None:
    with pytest.raises(InvalidInput) as caught:
        pin(["0", "1"], 2, 3)
    assert str(caught.value) == (
        "Each rank on a host must have a device. Received: local_rank=2, devices=0,1. Start at most 2 ranks on a host."
    )


@pytest.mark.parametrize(
    ("device", "order", "label"),
    [
        ("2", "", "GPU 2 (NVIDIA H200)"),
        ("GPU-1aaaaaaa-0000-0000-0000-000000000000", "", None),
        ("7", "", "GPU 7"),
        ("2", "FASTEST_FIRST", "GPU 2"),
    ],
)
def test_the_label_names_the_gpu(tmp_path: Path, device: str, order: str, label: str | None) -> None:
    child_environment = build_nvml(tmp_path, h200s(4)) | ({"CUDA_DEVICE_ORDER": order} if order else {})
    code = f"from jupyter_ddl.engine.devices import pin; print(pin([{device!r}], 0, 1).device)"
    child = subprocess.run(
        [sys.executable, "-c", code], env=child_environment, capture_output=True, text=True, timeout=60
    )
    assert child.stdout.strip() == (label or f"GPU {device} (NVIDIA H200)"), child.stderr


class FakeThreading:
    """tf.config.threading, as far as it is used."""

    def __init__(self, intra: int = 0, *, started: bool = False) -> None:
        self.intra, self.inter, self.started = intra, 0, started

    def get_intra_op_parallelism_threads(self) -> int:
        return self.intra

    def get_inter_op_parallelism_threads(self) -> int:
        return self.inter

    def set_intra_op_parallelism_threads(self, count: int) -> None:
        if self.started:
            raise RuntimeError("Intra op parallelism cannot be modified after initialization.")
        self.intra = count

    def set_inter_op_parallelism_threads(self, count: int) -> None:
        self.inter = count


@pytest.mark.parametrize(
    ("threading", "intra", "inter"),
    [(FakeThreading(), 3, 2), (FakeThreading(intra=8), 8, 2), (FakeThreading(started=True), 0, 0)],
)
def test_tensorflow_is_told(monkeypatch: pytest.MonkeyPatch, threading: FakeThreading, intra: int, inter: int) -> None:
    tensorflow = types.SimpleNamespace(config=types.SimpleNamespace(threading=threading))
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "2")
    configure_tensorflow(3)
    assert (threading.intra, threading.inter) == (intra, inter)
