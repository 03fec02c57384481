"""Ranks of several users of one machine, who are real accounts: their cores, GPUs, files and clusters."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from namespaces import run_apart
from nvml import FakeGpu, build_nvml
from processes import MARK
from ranks.kernels import without

from benchmarks.local_users import as_user, local_users, opened_way
from jupyter_ddl import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

# A user's own program, with two ranks, until its standard input closes. None needs TensorFlow.
USERS = """
import json, os, pathlib, sys, tempfile
import jupyter_ddl
from jupyter_ddl.cluster import folder
with jupyter_ddl.start(n=2, env=json.loads(sys.argv[1]), standby="never") as session:
    told = session.run("import os, tempfile; sorted(os.sched_getaffinity(0)), tempfile.gettempdir()")
    cores, folders = zip(*(eval(of.value) for of in told.ranks.values()))
    own = folder.ClusterFolder(session.name)
    private = [*set(folders), str(own.path), str(own.connection_file), str(jupyter_ddl.paths.runs_dir())]
    clusters = [of.name for of in folder.running()]
    print(json.dumps({"cores": cores, "folders": private, "clusters": clusters}), flush=True)
    for line in sys.stdin:
        print(json.dumps([path for path in json.loads(line) if os.access(path, os.R_OK)]), flush=True)
"""
# Two of them, one after the other, then both at one moment. What they leave open to others is named.
CLASS = """
import json, os, stat, subprocess, sys
from pathlib import Path
users, program = json.loads(sys.argv[1]), sys.argv[2]
def begun(command):
    home = Path(f"~{command[1].partition('=')[2]}").expanduser()
    lacks = json.dumps({"PYTHONPATH": f"{home}/lacks:{os.environ['PYTHONPATH']}"})
    line = [*command, sys.executable, "-c", program, lacks]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home)
def told(one):
    return json.loads(one.stdout.readline())
def asked(one, paths):
    print(json.dumps(paths), file=one.stdin, flush=True)
    return told(one)
def end(one):
    one.stdin.close()
    assert one.wait(60) == 0
    one.stdout.close()
def left(place):
    for path in Path(place).iterdir():
        if path.lstat().st_uid in uids and stat.S_IMODE(path.lstat().st_mode) & 0o077:
            yield str(path)
uids = {os.stat(Path(f"~{command[1].partition('=')[2]}").expanduser()).st_uid for command in users}
first = begun(users[0])
of_first = told(first)
second = begun(users[1])
of_second = told(second)
seen = asked(second, of_first["folders"]) + asked(first, of_second["folders"])
missing = [path for path in of_first["folders"] if not os.path.exists(path)]
open_to_all = [path for place in ("/tmp", "/dev/shm") for path in left(place)]
end(first)
end(second)
both = [begun(command) for command in users]
at_once = [told(one)["cores"] for one in both]
for one in both: end(one)
print(json.dumps({"first": of_first, "second": of_second, "seen": seen, "missing": missing, "open": open_to_all,
    "at_once": at_once}))
"""
# Ranks that stood by take over: they keep to the cores of those whose place they take.
TAKEN_OVER = """
import json, os, time
import jupyter_ddl
from jupyter_ddl.kernel.current import sessions
KEPT = "import os; os.getpid(), *{tuple(os.sched_getaffinity(int(of))) for of in os.listdir('/proc/self/task')}"
with jupyter_ddl.start(n=2, env=json.loads(os.environ["OF_RANKS"]), standby="auto") as session:
    kept = [[eval(of.value) for of in session.run(KEPT).ranks.values()]]
    until_s = time.monotonic() + 60
    while sessions().standby.pid is None:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    holder = sessions().standby.pid
    session.restart()
    kept += [[eval(of.value) for of in session.run(KEPT).ranks.values()]]
    leases = {session._cluster.folder.lease().pid, holder}
print(json.dumps([[[cores for _, *cores in of] for of in kept], len(leases)]))
"""
# A user's ranks on GPUs, until their standard input closes; or why there are none.
ON_GPUS = """
import json, sys
import jupyter_ddl
from jupyter_ddl.errors import InvalidInput
ranks, name, lacks = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
try:
    with jupyter_ddl.start(n=ranks, name=name, profile="class", env=lacks) as session:
        seen = session.run("import os; os.environ['CUDA_VISIBLE_DEVICES']")
        print(json.dumps([of.value.strip("'") for of in seen.ranks.values()]), flush=True)
        sys.stdin.read()
except InvalidInput as error:
    print(json.dumps(str(error)), flush=True)
"""
# One user's, then another's, who has what is left, and then no room; then it is free again. Then both at one moment.
GPUS = """
import json, os, subprocess, sys
from pathlib import Path
users, program = json.loads(sys.argv[1]), sys.argv[2]
def begun(command, ranks, name):
    home = Path(f"~{command[1].partition('=')[2]}").expanduser()
    lacks = json.dumps({"PYTHONPATH": f"{home}/lacks:{os.environ['PYTHONPATH']}"})
    line = [*command, sys.executable, "-c", program, str(ranks), name, lacks]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home)
def told(one):
    return json.loads(one.stdout.readline())
def end(one):
    one.stdin.close()
    assert one.wait(60) == 0
    one.stdout.close()
first, second = begun(users[0], 1, "one"), None
answers = [told(first)]
second = begun(users[1], 2, "one")
answers += [told(second)]
refused = begun(users[0], 1, "two")
answers += [told(refused)]
end(refused)
end(second)
third = begun(users[0], 2, "two")
answers += [told(third)]
end(first)
end(third)
both = [begun(command, 1, "one") for command in users]
answers += [sorted(sum((told(one) for one in both), []))]
for one in both: end(one)
print(json.dumps(answers))
"""


@pytest.fixture
def two_users() -> Iterator[list[str]]:
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("other users can be made by root alone")
    names = [f"ddl{secrets.token_hex(3)}" for _ in range(2)]
    with local_users(names):
        for name in names:
            folder = Path(f"~{name}").expanduser() / "lacks"
            folder.mkdir()
            without(folder, "tensorflow")
        yield names


def kept_to(cores: list[list[int]]) -> bool:
    """Return whether ranks are bound, each to its share; if not, each has all cores."""
    everything = sorted(os.sched_getaffinity(0))
    if all(of == everything for of in cores):
        return False
    assert sorted(core for of in cores for core in of) == everything
    return True


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="ranks are bound where each has a core")
def test_ranks_of_two_users_are_not_bound_to_the_same_cores_and_share_no_file(
    two_users: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", package := str(Path(__file__).parents[2]))
    words = json.dumps([as_user(name, MARK) for name in two_users])
    program = f"import sys\nsys.argv[1:] = [{words!r}, {USERS!r}]\n{CLASS}"
    variables = {"PYTHONPATH": package}
    found: Any = run_apart(f"{opened_way()}\nip link set lo up", program, variables)
    assert kept_to(found["first"]["cores"])
    assert not kept_to(found["second"]["cores"]), "Linux moves them to what is idle"
    assert sum(map(kept_to, found["at_once"])) <= 1
    assert found["first"]["clusters"] == found["second"]["clusters"] == ["default"], "one name, two clusters"
    assert found["missing"] == found["seen"] == found["open"] == []


def test_gpus_of_two_users_are_not_the_same(two_users: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # They are a stand-in NVML's, and other users can read it and the site's file.
    with tempfile.TemporaryDirectory(prefix="ddl-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        devices = [FakeGpu(f"GPU-{secrets.token_hex(4)}-0000-0000-0000-000000000000") for _ in range(3)]
        monkeypatch.setenv("LD_LIBRARY_PATH", build_nvml(folder, devices)["LD_LIBRARY_PATH"])
        site = folder / "jupyter_ddl.d" / "site.toml"
        site.parent.mkdir()
        site.write_text('[class]\nlimits = {gpus = "own"}\n')
        monkeypatch.setenv("JUPYTER_CONFIG_DIR", name)
        monkeypatch.setenv("PYTHONPATH", package := str(Path(__file__).parents[2]))
        words = json.dumps([as_user(name, MARK, "LD_LIBRARY_PATH", "JUPYTER_CONFIG_DIR") for name in two_users])
        program = f"import sys\nsys.argv[1:] = [{words!r}, {ON_GPUS!r}]\n{GPUS}"
        found: Any = run_apart(f"{opened_way()}\nip link set lo up", program, {"PYTHONPATH": package})
    first, second, refused, again, at_once = found
    assert (first, second, again, at_once) == (["0"], ["1", "2"], ["1", "2"], ["0", "1"])
    users = ", ".join(sorted(two_users))
    assert f"Received: 1 rank, and room for 0 on 3 GPUs; ranks of {users} have the rest." in refused


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="ranks are bound where each has a core")
def test_ranks_that_stood_by_keep_to_their_cores(tmp_path: Path) -> None:
    # Short names: they wait at a socket below.
    folders = {paths.RUNTIME_VARIABLE: str(tmp_path / "c"), paths.RUNS_VARIABLE: str(tmp_path / "r")}
    lacks = json.dumps(without(tmp_path, "tensorflow"))
    kept, leases = run_apart("ip link set lo up", TAKEN_OVER, {"OF_RANKS": lacks, **folders})
    assert leases == 1, "they did take over"
    for ranks in kept:
        assert all(len(of) == 1 for of in ranks), ranks
        assert kept_to([of[0] for of in ranks])
