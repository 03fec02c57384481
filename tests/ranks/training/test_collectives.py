"""Horovod's collectives on values, and the names of its Keras API, on real ranks: what collectives_program.py found."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ranks.mpirun import WORLDS
from ranks.numerics_world import World, world_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module", params=WORLDS)
def world(
    request: pytest.FixtureRequest, ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory
) -> World:
    return world_on(ranks(request.param), "collectives_program.py", tmp_path_factory)


# --- values ---------------------------------------------------------------------------------------------------------


def test_values_of_every_kind(world: World) -> None:
    n = world.size
    found = world.one("values_of_every_kind")
    dtypes = {"array": "float64"}
    for kind in ("python", "numpy scalar", "array", "tensor", "keras variable", "tf variable", "list"):
        dtype = dtypes.get(kind, "float32")
        scalar = kind in ("python", "numpy scalar")

        def same(number: float, scalar: bool = scalar) -> Any:
            return number if scalar else [[number, number]]

        assert found["allreduce"][kind] == [dtype, same((n - 1) / 2)], kind
        assert found["broadcast"][kind] == [dtype, same(n - 1.0)], kind
        gathered = [float(rank) for rank in range(n)]
        assert found["allgather"][kind] == [dtype, gathered if scalar else [[g, g] for g in gathered]], kind


def test_reductions(world: World) -> None:
    n = world.size
    rows = np.array([[rank + 1.0, 1 / 3] for rank in range(n)], "float32")
    found = world.one("reductions")
    for name, wanted in {
        "default": rows.mean(axis=0),
        "by position": rows.sum(axis=0),
        "scaled": 6 * rows.sum(axis=0),
        "Sum": rows.sum(axis=0),
        "Min": rows.min(axis=0),
        "Max": rows.max(axis=0),
        "Product": rows.prod(axis=0),
    }.items():
        assert found[name] == ["float32", pytest.approx(wanted.tolist(), rel=1e-6)], name
    assert found["fp16"] == ["float32", pytest.approx(rows.mean(axis=0).tolist(), rel=1e-3)]
    assert found["fp16"][1][1] != pytest.approx(1 / 3, rel=1e-5), "a third must have been rounded to float16"
    assert found["python int"] == ["float64", (n - 1) / 2], "not cut off to an integer"
    assert found["python int, sum"] == ["int32", n * (n - 1) // 2]
    assert found["slices"] == ["float32", [[float(rank)] * 2 for rank in range(n)]]


def test_average_is_told_once_and_works(world: World) -> None:
    total = world.size * (world.size - 1) / 2
    assert world.one("average_is_an_older_spelling") == {
        "average": ["float32", total / world.size],
        "sum": ["float32", total],
        "said": "Old spelling: allreduce(average=True). Today: op=hvd.Average.\n"
        "Old spelling: allreduce(average=False). Today: op=hvd.Sum.\n",
        "both": "op replaces average in hvd.allreduce. Received: op=1, average=True. Pass op alone, e.g. op=hvd.Sum.",
    }


def test_rows_are_dealt_out(world: World) -> None:
    n = world.size
    rows = np.arange(2.0 * (n + 1)).reshape(n + 1, 2)
    for rank, found in enumerate(world.every("scattered")):
        mine = slice(0, 2) if rank == 0 else slice(rank + 1, rank + 2)
        total = n * (n + 1) / 2
        assert found["average"] == (rows[mine] * total / n).tolist()
        assert found["sum"] == (rows[mine] * total * 2).tolist()
        assert found["alltoall"] == [rank + 10 * other for other in range(n)]
        assert found["splits"] == [[other for other in range(n) for _ in range(rank + 1)], [rank + 1] * n]
        assert found["scalar"] == (
            "hvd.reducescatter deals out the rows of its value. Received: a scalar. Pass an array, or use "
            "hvd.allreduce."
        )


def test_join(world: World) -> None:
    n = world.size
    for rank, found in enumerate(world.every("joined")):
        assert found["sums"] == [float(n - step) for step in range(rank + 1)]
        assert found["last"] == n - 1
        assert found["again"] == [float(n - step) for step in range(n - rank)]
        assert found["last again"] == 0


def test_barrier(world: World) -> None:
    *early, late = world.every("barrier")
    assert all(waited_s > 0.3 for waited_s in early)
    assert late < 0.3 or not early


def test_collectives_of_a_process_set(world: World) -> None:
    n = world.size
    for rank, found in enumerate(world.every("of_a_process_set")):
        if n == 1:
            assert found == {}
            continue
        ranks = list(range(n - 1))
        removed = (
            f"hvd.allreduce takes a process set that Horovod knows. Received: ranks {ranks}, not in use. Pass it to "
            "hvd.init(process_sets=[...]) or to hvd.add_process_set."
        )
        assert found.pop("removed") == removed
        if rank == n - 1:
            assert found.pop("variable") == [rank]
            assert found == {
                name: f"hvd.{name} over a process set is called by its ranks only. Received: rank {rank}, process set "
                f"of ranks {ranks}. Call it where process_set.included() is true."
                for name in found
            }
            continue
        assert found == {
            "allreduce": sum(ranks),
            "allgather": ranks,
            "broadcast": n + 3.0,
            "reducescatter": [[n * (n - 1) / 2]],
            "alltoall": [rank] * (n - 1),
            "barrier": None,
            "broadcast_variables": None,
            "variable": [n - 2.0],
            "root": f"root_rank must be in the process set. Received: root_rank={n - 1}, process set of ranks {ranks}. "
            "Pass one of its ranks, counted in the world.",
        }


def test_in_a_graph(world: World) -> None:
    assert world.one("in_a_graph") == [world.size, 2 * world.size]


def test_timeline(world: World) -> None:
    for rank, found in enumerate(world.every("timeline")):
        assert found["without"] == (
            "hvd.start_timeline needs HOROVOD_TIMELINE=DYNAMIC in the environment when Horovod is initialised. "
            "Received: HOROVOD_TIMELINE=. Set os.environ['HOROVOD_TIMELINE'] = 'DYNAMIC', then call hvd.shutdown() and "
            "hvd.init()."
        )
        assert found["recorded"] == (rank == 0)


def test_errors(world: World) -> None:
    n = world.size
    found = world.one("errors")
    assert found.pop("root") == (
        f"root_rank must be one of the ranks. Received: root_rank=-1, world_size={n}. Pass 0 <= root_rank < {n}."
    )
    start, _, rest = found.pop("global variables").partition("Keras 3.")
    assert start == (
        "hvd.broadcast_global_variables is for the graphs of TensorFlow 1, which have global variables. Received: "
        "root_rank=0, "
    )
    assert rest.endswith(
        ". Pass hvd.callbacks.BroadcastGlobalVariablesCallback(0) to fit, or call "
        "hvd.broadcast_variables(model.weights, 0)."
    )
    assert len(found) == 10
    for name, text in found.items():
        assert text == f"hvd.{name} needs Horovod. Received: Horovod is not initialised. Call hvd.init() first."


# --- names ----------------------------------------------------------------------------------------------------------

# Ours differ from Horovod's on purpose: a form of older Horovod works, too.
OPTIONAL_HERE = {("LearningRateScheduleCallback", "initial_lr"), ("LearningRateScheduleCallback", "multiplier")}
OPTIONAL_HERE |= {("LearningRateWarmupCallback", "initial_lr")}
# horovod.keras has another default than horovod.tensorflow.keras.
OTHER_THERE = {("horovod.keras", "allreduce", "average")}


def stock_source(module: str) -> ast.Module:
    package = importlib.util.find_spec("horovod")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent.joinpath(*module.split(".")[1:])
    return ast.parse(
        (path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py").read_text()
    )


def stock_exports(module: str) -> set[str]:
    """Return what a module of Horovod takes from Horovod, and what it defines."""
    names: set[str] = set()
    for node in stock_source(module).body:
        if (
            isinstance(node, ast.ImportFrom)
            and str(node.module).startswith("horovod")
            and "util" not in str(node.module)
        ):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
    return names


def stock_parameters(module: str) -> dict[str, list[tuple[str, str | None]]]:
    """Return, for each function and class, pairs of a parameter's name and its default as it is written."""
    found = {}
    for node in stock_source(module).body:
        function: Any = node
        if isinstance(node, ast.ClassDef):
            made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            function = made[0] if made else None
        if isinstance(function, ast.FunctionDef):
            names = [argument.arg for argument in function.args.args if argument.arg != "self"]
            defaults = [ast.unparse(default) for default in function.args.defaults]
            found[node.name] = list(zip(names, [None] * (len(names) - len(defaults)) + defaults, strict=True))
    return found


@pytest.mark.parametrize("module", ["horovod.tensorflow.keras", "horovod.keras"])
def test_all_that_horovod_exports_is_here(world: World, module: str) -> None:
    assert stock_exports(module) <= set(world.one("signatures")["exports"])
    assert {"alltoall", "join", "barrier", "DistributedGradientTape"} <= set(world.one("signatures")["exports"])


@pytest.mark.parametrize("module", ["horovod.tensorflow.keras", "horovod.keras"])
@pytest.mark.parametrize("part", ["", "callbacks", "elastic"])
def test_parameters_have_horovods_names_order_and_defaults(world: World, module: str, part: str) -> None:
    ours = world.one("signatures")["parameters"]
    stock = stock_parameters(f"{module}.{part}".rstrip("."))
    assert stock
    for name, parameters in stock.items():
        own = dict(ours[f"{part}.{name}".lstrip(".")])
        for position, (parameter, default) in enumerate(parameters):
            if "args" in own and parameter not in own:
                continue  # PartialDistributedOptimizer takes DistributedOptimizer's
            assert parameter in own, (name, parameter)
            # horovod.keras has some in another order; programs name them.
            if "args" not in own and module == "horovod.tensorflow.keras":
                assert list(own)[position] == parameter, (name, parameter)
            if (name, parameter) not in OPTIONAL_HERE and (module, name, parameter) not in OTHER_THERE:
                # Horovod's Average is a number.
                assert own[parameter] == ("0" if default == "Average" else default), (name, parameter)


def test_horovods_own_names_give_this_module(world: World) -> None:
    assert world.one("horovods_own_names_give_this_module")
