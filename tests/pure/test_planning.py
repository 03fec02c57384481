"""What is planned for what the user asks, and each refusal's text."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from nvml import build_nvml, h200s

from jupyter_ddl.cluster import gpu_choice, planning
from jupyter_ddl.cluster.planning import limited, plan, replanned
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import ClusterError, InvalidInput
from jupyter_ddl.host.topology import Gpu
from jupyter_ddl.launch.profiles.limits import Allowed

if TYPE_CHECKING:
    from pathlib import Path

FOUR = tuple(Gpu(index, f"GPU-{index}a", "NVIDIA H200", 141 * 2**30, mig=False) for index in range(4))


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen cores of two threads, no GPU, and nothing set."""
    monkeypatch.setattr(planning, "usable_cores", lambda: 16)
    monkeypatch.setattr(planning, "physical_cores", lambda: 8)
    monkeypatch.setattr(gpu_choice, "list_gpus", lambda: ())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_choice, "list_gpus", lambda: FOUR)


class TestOnCores:
    def test_default(self) -> None:
        assert plan() == ClusterSpec(
            name="default",
            n=4,
            devices=(),
            threads=4,
            environment={},
            keep=False,
            oversubscribe=False,
            note="No GPU here: 4 ranks on 16 cores, 4 threads each.",
        )

    def test_a_restart_says_why_there_is_no_gpu_as_the_start_did(self) -> None:
        # A kernel that attaches knows the ranks by this text.
        started = ClusterSpec.from_json(plan().to_json())
        assert replanned(started, {}) == started
        assert replanned(started, {"n": 2}).note == "No GPU here: 2 ranks on 16 cores, 4 threads each."

    def test_more_ranks_than_cores(self) -> None:
        planned = plan(n=32)
        assert (planned.n, planned.threads) == (32, 1)
        assert planned.note == "No GPU here: 32 ranks on 16 cores, 1 thread each."

    def test_one_rank(self) -> None:
        assert plan(n=1, threads=3).note == "No GPU here: 1 rank on 16 cores, 3 threads each."

    def test_threads_that_the_user_set_for_tensorflow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "7")
        assert plan(n=2).threads == 7
        assert plan(n=2, environment={"TF_NUM_INTRAOP_THREADS": "3"}).threads == 3
        assert plan(n=2, threads=5).threads == 5
        assert plan(n=2, environment={"TF_NUM_INTRAOP_THREADS": "many"}).threads == 8

    def test_survives_json(self) -> None:
        planned = plan(n=3, name="a.b-c_1", environment={"HOROVOD_CYCLE_TIME": "2", "B": ""}, keep=True)
        assert ClusterSpec.from_json(planned.to_json()) == planned

    def test_a_restart_keeps_to_what_the_profile_of_its_start_allows(self) -> None:
        started = limited(plan(n=2), Allowed("small", "/etc/site.toml", ranks=3))
        # A kernel that attaches knows the ranks by this text.
        kept = ClusterSpec.from_json(started.to_json())
        assert kept == started
        assert replanned(kept, {"n": 3}).allowed == kept.allowed
        said = r"The profile small allows at most 3 ranks\. Received: 4 ranks\. Ask for less; /etc/site\.toml has"
        with pytest.raises(InvalidInput, match=said):
            replanned(replanned(kept, {"n": 3, "env": {"A": "1"}}), {"n": 4})
        with pytest.raises(InvalidInput, match="at most 3 ranks"):
            limited(plan(n=4), Allowed("small", "/etc/site.toml", ranks=3))
        assert replanned(plan(n=2), {"n": 4}).n == 4


@pytest.mark.usefixtures("four_gpus")
class TestOnGpus:
    def test_a_restart_keeps_gpus_that_ranks_share(self) -> None:
        shared = plan(n=4, gpus="1,3", oversubscribe=True)
        assert replanned(shared, {}).devices == shared.devices == ("1", "3", "1", "3")

    def test_default(self) -> None:
        planned = plan()
        assert (planned.n, planned.devices, planned.threads) == (4, ("0", "1", "2", "3"), 4)
        assert planned.note == "4 ranks, one per GPU, 4 threads each."

    @pytest.mark.parametrize("gpus", ["2,0", " 2, 0 ", [2, 0], ["2", "0"], ["GPU-2a", "GPU-0a"]])
    def test_chosen(self, gpus: Any) -> None:
        planned = plan(gpus=gpus)
        assert (planned.n, planned.devices) == (2, ("2", "0"))

    def test_fewer_ranks_than_gpus(self) -> None:
        assert plan(n=2).devices == ("0", "1")
        assert plan(n=1, gpus="3,1").devices == ("3",)

    def test_sharing(self) -> None:
        planned = plan(n=3, gpus="1,0", oversubscribe=True)
        assert planned.devices == ("1", "0", "1")
        assert planned.note == "3 ranks, sharing 2 GPUs, 5 threads each."

    @pytest.mark.parametrize("gpus", ["none", "None", "", []])
    def test_refused(self, gpus: Any) -> None:
        planned = plan(gpus=gpus)
        assert (planned.n, planned.devices) == (4, ())
        assert planned.note == "No GPU asked for: 4 ranks on 16 cores, 4 threads each."
        assert replanned(planned, {}) == planned
        assert replanned(planned, {"n": 2}).devices == ()

    def test_hidden_by_the_scheduler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1a")
        assert plan().devices == ("3", "1")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert plan().note == "No GPU visible (CUDA_VISIBLE_DEVICES=): 4 ranks on 16 cores, 4 threads each."

    def test_too_many_ranks(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            plan(n=8)
        assert (
            str(caught.value)
            == "Engines must not outnumber GPUs. Received: n=8, GPUs=4. Pass n<=4, or --oversubscribe."
        )
        with pytest.raises(InvalidInput, match=r"Received: n=2, GPUs=1\. Pass n<=1, or --oversubscribe\."):
            plan(n=2, gpus="0")

    def test_a_gpu_that_does_not_exist(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            plan(gpus="0,9")
        assert str(caught.value) == (
            "Each of --gpus must be the index or UUID of a GPU that we may use. Received: '9', which does not exist. "
            "GPUs here: 0 (NVIDIA H200), 1 (NVIDIA H200), 2 (NVIDIA H200), 3 (NVIDIA H200)."
        )

    def test_a_gpu_that_is_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
        with pytest.raises(InvalidInput) as caught:
            plan(gpus="0")
        assert str(caught.value) == (
            "Each of --gpus must be the index or UUID of a GPU that we may use. "
            "Received: '0', which CUDA_VISIBLE_DEVICES hides. GPUs here: 2 (NVIDIA H200), 3 (NVIDIA H200)."
        )

    def test_a_gpu_named_twice(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            plan(gpus="1,GPU-1a")
        assert str(caught.value) == (
            "Each GPU must be named once in --gpus. Received: 1,GPU-1a. "
            "Leave the second one out; for several ranks on a GPU pass -n and --oversubscribe."
        )


class TestRefusals:
    def test_no_gpu_of_that_name_where_there_are_none(self) -> None:
        with pytest.raises(InvalidInput, match=r"'0', which does not exist\. GPUs here: none; pass --gpus none to use"):
            plan(gpus="0")

    def test_gpus_that_are_no_list(self) -> None:
        with pytest.raises(InvalidInput, match=r"gpus must be a list\. Received: gpus=0\. Pass gpus=\[0\]\."):
            plan(gpus=0)  # type: ignore[arg-type]

    @pytest.mark.parametrize("n", [0, -1, 2.0, "2", True])
    def test_count_of_ranks(self, n: Any) -> None:
        with pytest.raises(InvalidInput) as caught:
            plan(n=n)
        assert str(caught.value) == (
            f"n must be a whole number of at least 1. Received: n={n!r}. "
            "Pass n=1 or more, or leave it out to get one rank per GPU."
        )

    @pytest.mark.parametrize("what", ["n", "threads"])
    def test_a_count_that_nobody_has(self, what: str) -> None:
        for count, told in ((10**6 + 1, "1000001"), (10**5000, "a number of 16610 bits")):
            with pytest.raises(InvalidInput) as caught:
                plan(**{what: count})  # type: ignore[arg-type]
            assert str(caught.value).startswith(f"{what} must be at most 1,000,000. Received: {what}={told}. Pass ")

    @pytest.mark.parametrize("threads", [0, -4, 1.5])
    def test_threads(self, threads: Any) -> None:
        with pytest.raises(InvalidInput, match=r"threads must be a whole number of at least 1\. Received: threads="):
            plan(threads=threads)

    @pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "é", "x" * 65, "a\n"])
    def test_name(self, name: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            plan(name=name)
        assert str(caught.value) == (
            "A cluster's name must be 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front. "
            f"Received: name={name!r}. Pass a name such as 'train-2'."
        )

    @pytest.mark.parametrize("variable", ["", "1A", "A-B", "A=B", "A B"])
    def test_variable(self, variable: str) -> None:
        with pytest.raises(InvalidInput, match=r"A variable's name must be letters, digits and underscores"):
            plan(environment={variable: "1"})

    @pytest.mark.parametrize("value", ["a\0b", 1])
    def test_value(self, value: Any) -> None:
        with pytest.raises(InvalidInput, match=r"A variable's value must be text without a zero byte\. Received: A="):
            plan(environment={"A": value})

    def test_the_ranks_devices_in_env(self) -> None:
        with pytest.raises(InvalidInput, match=r"cannot be set\. Received: CUDA_VISIBLE_DEVICES=1\. Choose "):
            plan(environment={"CUDA_VISIBLE_DEVICES": "1"})


def test_a_broken_nvml_stops_nobody_who_asks_for_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[Gpu, ...]:
        raise ClusterError("NVML")

    monkeypatch.setattr(gpu_choice, "list_gpus", broken)
    assert plan(gpus="none").devices == ()
    with pytest.raises(ClusterError):
        plan()


def test_with_real_nvidia_ml_py(tmp_path: Path) -> None:
    environment = {**build_nvml(tmp_path, h200s(4)), "CUDA_VISIBLE_DEVICES": "GPU-3aaa,1"}
    code = "from jupyter_ddl.cluster.planning import plan; print(plan().devices)"
    child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert child.stdout == "('3', '1')\n", child.stderr
