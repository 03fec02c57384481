"""GPUs that a site gives out, to real ranks of several kernels and of scripts. They are a stand-in NVML's."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from nvml import FakeGpu, build_nvml, later_processes
from ranks.kernels import KernelError, kernel, without

from jupyter_ddl.host.gpu_claims import claims

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.mpi

GIB = 2**30
GONE_S = 30.0
SEEN = """
import os
variables = ["CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION"]
print(*(os.environ.get(name, "") for name in variables), end="")
"""
# What a kernel does with ranks that it starts with a name, and a number or none.
START = f"""
import jupyter_ddl
from jupyter_ddl.errors import InvalidInput
try:
    s = jupyter_ddl.start({{n}}, name={{name!r}}, profile="class")
except InvalidInput as error:
    answer = str(error)
else:
    seen = s.run({SEEN!r})
    answer = [seen.ranks[rank].stdout for rank in sorted(seen.ranks)]
"""


def gpus(count: int) -> list[FakeGpu]:
    # Others' claims are of other GPUs: all of a host see them.
    return [FakeGpu(f"GPU-{secrets.token_hex(4)}-0000-0000-0000-000000000000") for _ in range(count)]


def site(tmp_path: Path, devices: list[FakeGpu], limits: str) -> dict[str, str]:
    folder = tmp_path / "site" / "jupyter_ddl.d"
    folder.mkdir(parents=True)
    (folder / "site.toml").write_text(f"[class]\nlimits = {{{limits}}}\n")
    variables = build_nvml(tmp_path, devices) | without(tmp_path, "tensorflow", "torch", "jax")
    return variables | {"JUPYTER_CONFIG_DIR": str(folder.parent)}


def held(devices: list[FakeGpu]) -> int:
    return len(claims(gpu.uuid for gpu in devices))


def test_each_rank_has_one_that_no_other_has_until_its_own_have_ended(tmp_path: Path) -> None:
    devices = gpus(3)
    variables = site(tmp_path, devices, 'gpus = "own"')
    with kernel(variables) as first, kernel(variables) as second:
        assert first.do(START.format(n=1, name="one")) == ["0 "]
        # Without a number: what is left.
        assert second.do(START.format(n=None, name="two")) == ["1 ", "2 "]
        assert held(devices) == 3
        refused = first.do(START.format(n=1, name="three"))
        said = "Received: 1 rank, and room for 0 on 3 GPUs; ranks of "
        assert f"GPUs are given out by the profile class (gpus = own in {tmp_path}" in refused
        assert said in refused
        # They keep them over a restart, and give them back when they are stopped, or lost with their kernel.
        assert second.do("s.restart(); answer = s.run('rank').outcome") == "finished"
        assert held(devices) == 3
        # A restart with more than there is room for is refused before the ranks end.
        with pytest.raises(KernelError, match="Received: 3 ranks, and room for 2 on 3 GPUs; ranks of "):
            second.do("s.restart(n=3)")
        assert second.do("answer = s.run('rank').outcome") == "finished"
        second.do("s.stop()")
        assert held(devices) == 1
        first.process.kill()
        due_s = time.monotonic() + GONE_S
        while held(devices) and time.monotonic() < due_s:
            time.sleep(0.1)
        assert held(devices) == 0


@pytest.mark.slow
def test_ranks_share_with_room_for_each(tmp_path: Path) -> None:
    devices = gpus(2)
    variables = site(tmp_path, devices, 'ranks = 3, gpus = "shared", gpu_memory_per_rank = "48GiB"')
    with kernel(variables) as first, kernel(variables) as second:
        # Two on each: 47 of 141 GiB for frameworks. Ranks of one world take different GPUs first.
        assert first.do(START.format(n=3, name="one")) == ["0 0.3333", "1 0.3333", "0 0.3333"]
        assert "2 ranks, and room for 1 on 2 GPUs" in second.do(START.format(n=2, name="two"))
        assert second.do(START.format(n=1, name="two")) == ["1 0.3333"]


# The kernel's check let it pass: another user was faster.
LATE = """
import jupyter_ddl
from jupyter_ddl.cluster import gpu_places
from jupyter_ddl.errors import ClusterStartFailed
gpu_places.check_free = lambda *_: None
try:
    jupyter_ddl.start(n=2, name="late", profile="class")
except ClusterStartFailed as error:
    answer = str(error)
"""


def test_ranks_that_come_too_late_end_with_the_reason(tmp_path: Path) -> None:
    devices = gpus(2)
    variables = site(tmp_path, devices, 'gpus = "own"')
    with kernel(variables) as first, kernel(variables) as second:
        assert first.do(START.format(n=1, name="one")) == ["0 "]
        text = second.do(LATE)
        assert "GPUs are given out by the profile class (gpus = own in " in text
        assert "Received: 2 ranks, and room for 1 on 2 GPUs. Start fewer ranks" in text
        assert "Traceback" not in text
        # What they had claimed by then is free.
        assert held(devices) == 1


OVER = """
from jupyter_ddl.errors import ClusterLost
pid = s.ranks[1].pid
with open({file!r}, "w") as file:
    file.write(f"1 {{pid}} {{12 * 2**30}}\\n")
try:
    s.run("import time; time.sleep(600)")
except ClusterLost as error:
    answer = str(error)
"""


def test_a_rank_that_holds_more_of_a_gpu_is_ended_and_named(tmp_path: Path) -> None:
    devices = gpus(2)
    variables = site(tmp_path, devices, 'gpus = "shared", gpu_memory_per_rank = "10GiB"')
    with kernel(variables) as one:
        assert one.do(START.format(n=2, name="one")) == ["0 0.0638", "1 0.0638"]
        text = one.do(OVER.format(file=str(later_processes(tmp_path))))
        assert "was ended, since it held 12 GiB of GPU memory and may hold 10 GiB. The limit is set by" in text
        assert text.startswith("Ranks must live to the end of the cell. Received: rank 1 on ")
        # New ranks have their places, and the next cell works.
        assert one.do("answer = s.run('rank').outcome") == "finished"
        assert held(devices) == 2


def run(script: Path, n: int, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", str(n), "--profile", "class", str(script)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_scripts_get_theirs_too(tmp_path: Path) -> None:
    devices = gpus(2)
    variables = site(tmp_path, devices, 'gpus = "shared", gpu_memory_per_rank = "70GiB"')
    script = tmp_path / "script.py"
    script.write_text(SEEN.replace('end=""', "flush=True"))
    done = run(script, 2, variables)
    assert done.returncode == 0, done.stderr
    assert sorted(line.rpartition("]")[2].strip() for line in done.stdout.splitlines()) == ["0 0.4894", "1 0.4894"]
    refused = run(script, 5, variables)
    assert refused.returncode == 1
    assert "Received: 5 ranks, and room for 4 on 2 GPUs." in refused.stderr
    file = later_processes(tmp_path)
    script.write_text(
        f"import os, time\nif os.environ['CUDA_VISIBLE_DEVICES'] == '1':\n"
        f"    open({str(file)!r}, 'w').write(f'1 {{os.getpid()}} {72 * GIB}\\n')\ntime.sleep(600)\n"
    )
    ended = run(script, 2, variables)
    assert ended.returncode
    assert "was ended, since it held 72 GiB of GPU memory and may hold 70 GiB." in ended.stderr
    assert held(devices) == 0


# TensorFlow has no GPU here, and checks its limit as it does where there is one.
IN_TENSORFLOW = """
from jupyter_ddl.engine import gpu_share
from jupyter_ddl.host.topology import Gpu
gpu_share.list_gpus = lambda: (Gpu(0, "GPU-0a", "NVIDIA H200", 141 * 2**30, mig=False),)
from tensorflow.python.eager import context
own = context.PhysicalDevice("/physical_device:GPU:0", "GPU")
known = context.context()
known._initialize_physical_devices()
known._physical_devices.append(own)
known._visible_device_list.append(own)
gpu_share.keep_within(20 * 2**30, "0")
import tensorflow as tf
from jupyter_ddl.legacy import devices
devices.patch_devices(tf)
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)
print([one.memory_limit for one in tf.config.get_logical_device_configuration(own)])
"""


def test_tensorflow_takes_the_limit_and_a_program_that_wants_growing_memory_runs_on() -> None:
    growing = {**os.environ, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    command = [sys.executable, "-c", IN_TENSORFLOW]
    done = subprocess.run(command, env=growing, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[19456]"
