"""JAX on real ranks: its processes start by themselves, compute as one, and are released where they wait."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from frameworks.jax_programs import BEGUN, JAX, values

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost, InvalidInput, RankError, RunInterrupted, RunStalled, RunTimedOut
from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = [pytest.mark.mpi, pytest.mark.frameworks]
# A release is of milliseconds to a second: what is meant is that nothing hangs.
SLACK_S = 30.0

# What the first rank waits in, by name: an exchange, the first one of new processes, their backends, their start.
PLACES = {
    "jit": "total(1)",
    "first": "jax.distributed.shutdown(); jax.distributed.initialize(); jax.devices(); met()\ntotal(1)",
    "backends": "jax.distributed.shutdown(); jax.distributed.initialize(); met()\njax.devices()",
    "initialize": "jax.distributed.shutdown(); met()\njax.distributed.initialize()",
}


def pids(session: Session) -> list[int]:
    return [rank.pid for rank in session.ranks]


@pytest.fixture
def begun(jax_pair: Session) -> Session:
    jax_pair.run(BEGUN)
    return jax_pair


def test_it_needs_no_argument_and_a_cell_may_run_again(jax_pair: Session) -> None:
    for _ in range(3):
        assert values(jax_pair, BEGUN) == ["3.0", "3.0"]
    asked = "jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count()"
    assert values(jax_pair, asked) == ["(0, 2, 2, 1)", "(1, 2, 2, 1)"]


def test_the_programs_own_arguments_win_also_after_a_release(begun: Session) -> None:
    with HeldPorts() as ports:
        own = f"jax.distributed.initialize('127.0.0.1:{ports.add()}', 2, rank)\n"
        with pytest.raises(RankError, match=r"than the one before\. Call jax\.distributed\.shutdown\(\)"):
            begun.run(own)
        begun.run(f"jax.distributed.shutdown()\n{own}")
        with pytest.raises(RankError, match="on purpose"):
            begun.run("if rank: raise ValueError('on purpose')\ntotal(1)")
        assert values(begun, "total(rank + 1)") == ["3.0", "3.0"]
        begun.run("jax.distributed.shutdown()")


def test_pmap_and_shard_map_exchange_between_the_ranks(begun: Session) -> None:
    assert values(
        begun, "float(jax.pmap(lambda v: jax.lax.psum(v, 'i'), axis_name='i')(jnp.ones(1) * (rank + 1))[0])"
    ) == [
        "3.0",
        "3.0",
    ]
    code = """
array, mesh = sharded([rank + 1.0, 10.0])
exchanged = jax.jit(jax.shard_map(lambda v: jax.lax.pmean(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(array)
np.asarray(exchanged).tolist()
"""
    assert values(begun, code) == ["[1.5, 10.0]"] * 2


def test_a_training_with_shards_is_that_of_one_process(begun: Session) -> None:
    trained = """
x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
y = x @ np.asarray([1.0, -2.0, 0.5], np.float32)

@jax.jit
def step(weights, inputs, targets):
    gradient = jax.grad(lambda w: jnp.mean((inputs @ w - targets) ** 2))(weights)
    return weights - 0.1 * gradient

weights = jnp.zeros(3)
"""
    alone = trained + "for _ in range(20): weights = step(weights, x, y)\n"
    names: dict[str, object] = {}
    program = f"{JAX}{alone}print(np.asarray(weights).tolist())"
    one = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names["one"] = eval(one.stdout)
    halves = """
half = slice(rank * 8, rank * 8 + 8)
inputs, mesh = sharded(x[half])
targets, _ = sharded(y[half])
weights = jax.device_put(np.zeros(3, np.float32), NamedSharding(mesh, P()))
for _ in range(20): weights = step(weights, inputs, targets)
np.asarray(weights).tolist()
"""
    for value in values(begun, trained + halves):
        assert value is not None
        assert eval(value) == pytest.approx(names["one"], abs=1e-5)


def raised(session: Session, code: Callable[[str], str]) -> float:
    with pytest.raises(RankError, match="ValueError: on purpose") as caught:
        session.run(code("raise ValueError('on purpose')"))
    ended_s = time.time()
    assert caught.value.rank == 1
    return ended_s - float(session.pull("began_s", [1])[1])


def interrupted(session: Session, code: Callable[[str], str]) -> float:
    asked: list[float] = []

    def interrupt() -> None:
        asked.append(time.time())
        session.interrupt()

    timer = threading.Timer(1.5, interrupt)
    timer.start()
    with pytest.raises(RunInterrupted):
        session.run(code("time.sleep(300)"))
    return time.time() - asked[0]


def timed_out(session: Session, code: Callable[[str], str]) -> float:
    began_s = time.time()
    with pytest.raises(RunTimedOut):
        session.run(code("time.sleep(300)"), timeout_s=1.5)
    return time.time() - began_s - 1.5


ENDS: dict[str, Callable[[Session, Callable[[str], str]], float]] = {
    "raised": raised,
    "interrupted": interrupted,
    "timed_out": timed_out,
}
CASES = ["jit-raised", "jit-interrupted", "jit-timed_out", "first-raised", "backends-interrupted", "initialize-raised"]


@pytest.mark.parametrize("case", CASES)
def test_a_blocked_rank_is_released_and_the_next_cell_computes(begun: Session, case: str) -> None:
    place, end = case.split("-")
    before = pids(begun)
    begun.run("alone = jnp.arange(2.0)")

    def code(other: str) -> str:
        return f"""
def met():
    if rank == 1:
        wait_and_leave()

def wait_and_leave():
    global began_s
    time.sleep(0.5)
    began_s = time.time()
    {other}

{"met()" if place == "jit" else ""}
{PLACES[place]}
"""

    took_s = ENDS[end](begun, code)
    print(f"{case}: released after {took_s * 1000:.0f} ms")
    assert took_s < SLACK_S
    # Where a rank has left by itself, and not come back, the program says again that it does.
    again = "jax.distributed.initialize()\n" if place == "initialize" else ""
    assert values(begun, f"{again}total(rank + 1), kept") == ["(3.0, 0)", "(3.0, 1)"]
    assert values(begun, "np.asarray(alone + 1).tolist()") == ["[1.0, 2.0]"] * 2
    assert pids(begun) == before


@pytest.mark.slow
def test_twenty_releases_of_four_ranks() -> None:
    session = jupyter_ddl.start(n=4, name="jax-4", framework="jax")
    try:
        session.run(BEGUN)
        before = pids(session)
        for _ in range(20):
            with pytest.raises(RankError, match="ValueError: on purpose"):
                session.run("if rank == 3: raise ValueError('on purpose')\ntotal(1)")
            assert values(session, "total(rank + 1), kept") == [f"(10.0, {rank})" for rank in range(4)]
        assert pids(session) == before
    finally:
        session.stop()


def test_an_error_at_the_same_place_on_all_ranks_keeps_the_processes(begun: Session) -> None:
    begun.run("array, mesh = sharded([rank + 1.0])")
    with pytest.raises(RankError, match="NameError"):
        begun.run("no_such_name")
    assert values(begun, "float(summed(array))") == ["3.0", "3.0"]


@pytest.mark.parametrize("elsewhere", ["pass", "1 / 0"])
def test_where_ranks_end_a_cell_at_different_places_new_processes_are_made(begun: Session, elsewhere: str) -> None:
    begun.run("old = jax.devices()[0].client")
    with pytest.raises(RankError):
        begun.run(f"if rank:\n    raise ValueError('on purpose')\n{elsewhere}")
    assert values(begun, "jax.devices()[0].client is old") == ["False", "False"]
    assert values(begun, "total(rank + 1)") == ["3.0", "3.0"]


def test_a_rank_that_does_not_come_is_named_as_a_stall(begun: Session) -> None:
    code = "jax.distributed.shutdown()\ntime.sleep(300 if rank else 0)\njax.distributed.initialize()"
    with pytest.raises(RunStalled, match=r"jax.distributed.initialize: rank 0 waits in it for rank 1"):
        begun.run(code, stalls=StallOptions(5, "abort"), timeout_s=60)
    assert values(begun, BEGUN) == ["3.0", "3.0"]


def test_a_rank_that_is_killed_is_replaced_and_the_next_cell_computes(begun: Session) -> None:
    timer = threading.Timer(1.0, os.kill, (pids(begun)[0], signal.SIGKILL))
    timer.start()
    with pytest.raises(ClusterLost, match=r"rank 0 .* signal 9"):
        begun.run("if rank == 0: time.sleep(300)\ntotal(1)")
    begun.wait_rebuilt()
    assert values(begun, BEGUN) == ["3.0", "3.0"]


def test_some_of_the_ranks_make_no_processes(begun: Session) -> None:
    begun.run("jax.distributed.shutdown()")
    with pytest.raises(RankError, match=r"All ranks together become the processes of JAX") as caught:
        begun.run("jax.distributed.initialize()", ranks=[1])
    assert InvalidInput.__name__ in str(caught.value)


def test_it_comes_before_any_computation() -> None:
    session = jupyter_ddl.start(n=1, name="jax-1", framework="jax")
    try:
        with pytest.raises(RankError, match=r"must come before all other use of JAX on a rank.*%ddl restart"):
            session.run(f"{JAX}jnp.ones(1) + 1\njax.distributed.initialize()")
    finally:
        session.stop()


def test_a_script_needs_no_argument_and_its_ranks_may_end_in_any_order(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        f"{JAX}\njax.distributed.initialize()\nrank = jax.process_index()\n"
        'print("sum", float(jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i")(jnp.ones(1) * (rank + 1))[0]))\n'
        "time.sleep(1.5 * rank)\nprint('ended', rank)\n"
    )
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=80, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # One line of both, unless the second rank's came a quarter of a second after the first one's.
    summed = re.findall(r"^\[([\d-]+)\] +sum 3\.0$", done.stdout, re.MULTILINE)
    assert sorted(summed) in (["0-1"], ["0", "1"]), done.stdout
    assert "ended 1" in done.stdout


def test_orbax_saves_after_a_release(begun: Session, tmp_path: Path) -> None:
    """It keeps JAX's client of its first save, also where new processes have another one."""
    if importlib.util.find_spec("orbax") is None:
        pytest.skip("orbax is not installed")
    begun.run("import orbax.checkpoint as ocp")
    saved = (
        "spread, _ = sharded([rank + 1.0])\n"
        "with ocp.StandardCheckpointer() as saver: saver.save({path!r}, dict(spread=spread))"
    )
    begun.run(saved.format(path=str(tmp_path / "first")))
    with pytest.raises(RankError, match="on purpose"):
        begun.run("if rank: raise ValueError('on purpose')\ntotal(1)")
    begun.run(saved.format(path=str(tmp_path / "second")))
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}


def test_a_script_ends_where_a_library_keeps_arrays_to_the_end_of_the_process(tmp_path: Path) -> None:
    """Flax NNX does: the client of JAX's service stays connected, and rank 0 waited five minutes for its end."""
    script = tmp_path / "program.py"
    script.write_text(
        f"{JAX}\nimport ctypes\njax.distributed.initialize()\nkept = jnp.ones(1) + jax.process_index()\n"
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))\nprint('ended')\n"
    )
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=80, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ended" in done.stdout
