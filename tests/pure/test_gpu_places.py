"""GPUs that a site gives out: how a profile says it, how many ranks get one, and what frameworks may hold there."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.cluster import gpu_choice, gpu_places
from jupyter_ddl.cluster.planning import plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.doctor.profiles import check_profiles
from jupyter_ddl.engine import gpu_share
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import gpu_claims, topology
from jupyter_ddl.host.gpu_claims import Claim
from jupyter_ddl.host.topology import Gpu
from jupyter_ddl.launch.profiles.limits import Allowed
from jupyter_ddl.launch.profiles.reading import read_profiles
from jupyter_ddl.legacy import devices
from jupyter_ddl.protocol.faults import Facts, Fault, MemoryExcess
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from pathlib import Path

GIB = 2**30
FOUR = tuple(Gpu(index, f"GPU-{index}a", "NVIDIA H200", 141 * GIB, mig=False) for index in range(4))
OWN = Allowed("class", "/etc/site.toml", gpus="own")
SHARED = Allowed("class", "/etc/site.toml", gpus="shared", gpu_memory_per_rank="40GiB")


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> set[Claim]:
    """Give this host four GPUs, and the claims of their places, which a test adds to."""
    found: set[Claim] = set()
    for module in (gpu_choice, topology, gpu_share):
        monkeypatch.setattr(module, "list_gpus", lambda: FOUR)
    monkeypatch.setattr(gpu_claims, "claims", lambda _: found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


@pytest.mark.parametrize(
    ("limits", "allotment", "text"),
    [
        ('gpus = "own"', None, "a GPU of its own"),
        ('gpus = "shared", gpu_memory_per_rank = "20GB"', 20 * 10**9, "20GB of a GPU"),
    ],
)
def test_a_profile_has_it(tmp_path: Path, limits: str, allotment: int | None, text: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f"[class]\nlimits = {{{limits}}}\n")
    (named,) = read_profiles(file)
    limit = named.profile.limits
    allowed = Allowed("class", str(file), gpus=limit.gpus, gpu_memory_per_rank=limit.gpu_memory_per_rank)
    assert allowed.allotment == GpuAllotment(f"the profile class (gpus = {limit.gpus} in {file})", allotment)
    (check,) = check_profiles((tmp_path,))
    assert check.text == f"class (local); each rank gets {text}"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('limits = {gpus = "shared"}', r'gpu_memory_per_rank goes with gpus = "shared"\. Received: .*= None\.'),
        ('limits = {gpus = "own", gpu_memory_per_rank = "8GB"}', "gpu_memory_per_rank goes with"),
        ('limits = {gpu_memory_per_rank = "8GB"}', "gpu_memory_per_rank goes with"),
        ('limits = {gpus = "shared", gpu_memory_per_rank = "1GB"}', "share of a GPU's memory is at least 2GiB"),
        ('limits = {gpus = "shared", gpu_memory_per_rank = "much"}', "A size of memory is"),
        ('limits = {gpus = "mine"}', "must have a value of its type"),
        ('launcher = "slurm"\nlimits = {gpus = "own"}', "A scheduler gives its jobs their GPUs"),
    ],
)
def test_a_profile_that_breaks_a_rule_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f"[class]\n{lines}\n")
    with pytest.raises(InvalidInput, match=said):
        read_profiles(file)


def test_the_start_says_it_and_each_rank_finds_its_own() -> None:
    spec = plan(allowed=OWN, standby="auto")
    assert (spec.n, spec.devices, spec.finds_devices, spec.standby) == (4, (), True, "never")
    assert spec.note.endswith(" each. Each gets a GPU of its own (the profile class).")
    assert plan(allowed=SHARED).note.endswith(" Each gets 40GiB of a GPU (the profile class).")
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert replanned(spec, {}) == spec
    two = plan(gpus="1,3", allowed=SHARED)
    assert (two.n, two.gpus_among) == (2, ("1", "3"))
    assert two.allotment is not None
    assert (two.allotment.share_bytes, two.allotment.among) == (40 * GIB, ("1", "3"))
    assert replanned(ClusterSpec.from_json(two.to_json()), {}) == two


def test_on_the_cores_there_is_nothing_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (plan(n=2, gpus="none", allowed=OWN), plan(n=2, gpus="none", allowed=SHARED)):
        assert not spec.finds_devices
        assert "GPU of its own" not in spec.note
        gpu_places.check_free(spec)
    monkeypatch.setattr(gpu_choice, "list_gpus", lambda: ())
    assert plan(n=2, allowed=OWN).note.startswith("No GPU here: 2 ranks")


def test_without_a_number_a_start_takes_what_is_free_and_allowed(held: set[Claim]) -> None:
    held |= {Claim("GPU-0a", None, 0), Claim("GPU-1a", 0, 0), Claim("GPU-1a", 1, 0), Claim("GPU-1a", 2, 0)}
    assert plan(allowed=OWN).n == 2
    assert plan(allowed=SHARED).n == 2
    assert plan(allowed=Allowed("class", "f", ranks=1, gpus="own")).n == 1
    held |= {Claim(f"GPU-{one}a", None, 0) for one in (2, 3)}
    # It is refused by the next check.
    assert plan(allowed=OWN).n == 1


def test_a_start_without_room_is_refused_and_says_who_has_it(held: set[Claim]) -> None:
    gpu_places.check_free(plan(n=4, allowed=OWN))
    held |= {Claim("GPU-0a", None, 0), Claim("GPU-1a", 0, 4294967294)}
    gpu_places.check_free(plan(n=2, allowed=OWN))
    with pytest.raises(InvalidInput) as caught:
        gpu_places.check_free(plan(n=3, allowed=OWN))
    assert str(caught.value) == (
        "GPUs are given out by the profile class (gpus = own in /etc/site.toml). Received: 3 ranks, and room for 2 on "
        "4 GPUs; ranks of root, user 4294967294 have the rest. Start fewer ranks, or wait until other ranks have "
        "ended; --gpus none takes the cores."
    )
    # Three places on each: none on the first, two on the second.
    gpu_places.check_free(plan(n=8, allowed=SHARED))
    with pytest.raises(InvalidInput, match="9 ranks, and room for 8 on 4 GPUs"):
        gpu_places.check_free(plan(n=9, allowed=SHARED))
    with pytest.raises(InvalidInput, match=r"2 ranks, and room for 0 on 1 GPU; "):
        gpu_places.check_free(plan(n=2, gpus="0", allowed=SHARED))
    # Those of a GPU too small for one share.
    with pytest.raises(InvalidInput, match=r"1 rank, and room for 0 on 4 GPUs"):
        gpu_places.check_free(plan(n=1, allowed=Allowed("class", "f", gpus="shared", gpu_memory_per_rank="200GiB")))


class Cuda:
    """As `torch.cuda` without a GPU: what is to be called waits for its first use."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.fraction = 0.0

    def _lazy_call(self, call: Any) -> None:
        self.waiting.append(call)

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fraction = fraction


def test_frameworks_get_the_share_without_what_cuda_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, limits = Cuda(), []
    config = SimpleNamespace(
        get_visible_devices=lambda kind: [f"a {kind}"],
        LogicalDeviceConfiguration=lambda memory_limit: memory_limit,
        set_logical_device_configuration=lambda device, given: limits.append((device, given)),
    )
    modules = {"torch.cuda": cuda, "tensorflow": SimpleNamespace(config=config)}
    monkeypatch.setattr(gpu_share.import_hooks, "when_imported", lambda name, listener: listener(modules[name]))
    for variable in ("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.setenv(variable, "by the test")
    gpu_share.keep_within(48 * GIB, "2")
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.3333"
    assert limits == [("a GPU", [47 * 1024])]
    assert cuda.fraction == 0
    for call in cuda.waiting:
        call()
    assert cuda.fraction == pytest.approx(47 / 141)


def test_memory_that_has_a_limit_grows_as_a_program_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")

    def stock(_device: object, _enable: bool) -> None:
        # TensorFlow 2.21's.
        raise ValueError("Cannot set memory growth on device when virtual devices configured")

    devices._grow(stock, "a GPU", True)
    with pytest.raises(ValueError, match="virtual devices"):
        devices._grow(stock, "a GPU", False)

    def unknown(_device: object, _enable: bool) -> None:
        raise ValueError("Unrecognized device: a GPU")

    with pytest.raises(ValueError, match="Unrecognized"):
        devices._grow(unknown, "a GPU", True)


def test_the_fault_says_which_memory() -> None:
    excess = MemoryExcess(12 * GIB, 1, 10 * GIB, "the profile class (gpus = shared in f)", on_gpu=True)
    fault = Fault("lost", "rank", (1,), "node-a", cause="memory limit", facts=Facts(excess=excess))
    assert describe(fault).startswith(
        "rank 1 on node-a was ended, since it held 12 GiB of GPU memory and may hold 10 GiB. The limit is set by the "
        "profile class (gpus = shared in f)."
    )
