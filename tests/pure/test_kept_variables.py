"""What cells defined on a rank that is ended as idle, and what of it the rank has that takes its place."""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_ddl import paths
from jupyter_ddl.cluster import kept_variables
from jupyter_ddl.cluster.planning import plan, replanned
from jupyter_ddl.engine.kept_variables.definitions import definitions
from jupyter_ddl.engine.kept_variables.rank_variables import RankVariables
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import HostSlots, Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CELL = """
import math
from collections import OrderedDict as Ordered
def scaled(x):
    return x * factor
class Net:
    def __init__(self):
        self.weights = [1.0, 2.0]
factor = 2
net = Net()
"""


@pytest.fixture
def new_shell(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    def make() -> Any:
        shell = InteractiveShell()
        # Where a rank's pickle finds the classes of cells.
        monkeypatch.setitem(sys.modules, "__main__", shell.user_module)
        return shell

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    return make


def ran(shell: Any, *cells: str) -> RankVariables:
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
    return RankVariables(shell, {"rank": 0})


def loaded(shell: Any, folder: Path, *left_out: str) -> tuple[RankVariables, dict[str, Any]]:
    variables = RankVariables(shell, {"rank": 0})
    told = variables.stage(folder, left_out)
    variables.use(is_wanted=True)
    return variables, told


def value(shell: Any, expression: str) -> Any:
    return eval(expression, shell.user_ns)


def test_a_function_has_the_namespace_of_the_new_rank_and_an_object_its_class(
    new_shell: Callable[[], Any], tmp_path: Path
) -> None:
    told = ran(new_shell(), CELL, "both = {'first': net}").save(tmp_path)
    assert told == {"kept": ["both", "factor", "net"], "left_out": {}}
    new = new_shell()
    assert loaded(new, tmp_path)[1] == {"raised": {}}
    new.run_cell("factor = 5").raise_error()
    assert value(new, "scaled(3)") == 15
    assert value(new, "(type(net) is Net, both['first'] is net, net.weights)") == (True, True, [1.0, 2.0])
    assert value(new, "(math.pi > 3, Ordered.__name__)") == (True, "OrderedDict")


def test_what_cannot_be_pickled_is_named_and_the_rest_is_whole(new_shell: Callable[[], Any], tmp_path: Path) -> None:
    cells = (
        "import threading, torch_like",
        "shared = [1]\nlock = {'first': shared, 'lock': threading.Lock()}\nagain = (shared, shared)",
        "square = lambda x: x * x\nlast = {'shared': shared}",
    )
    (tmp_path / "torch_like.py").write_text("")
    old = new_shell()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        told = ran(old, *cells).save(tmp_path)
    assert told["kept"] == ["again", "last", "shared"]
    assert told["left_out"]["lock"] == "TypeError: cannot pickle '_thread.lock' object"
    assert "<lambda>" in told["left_out"]["square"]
    new = new_shell()
    sys.modules.pop("torch_like", None)
    # One import that is gone does not take the others with it.
    assert loaded(new, tmp_path)[1] == {
        "raised": {"import threading, torch_like": "ModuleNotFoundError: No module named 'torch_like'"}
    }
    assert value(new, "again[0] is shared and again[1] is shared and last['shared'] is shared")


def test_what_belongs_to_a_world_of_ranks_is_not_kept(new_shell: Callable[[], Any], tmp_path: Path) -> None:
    shell = new_shell()
    shell.user_ns["wrapped"] = type("Wrapped", (), {"__module__": "torch.nn.parallel.distributed"})()
    assert ran(shell, "held = [1, wrapped]\nx = 1").save(tmp_path) == {
        "kept": ["x"],
        "left_out": {
            "wrapped": "PicklingError: a Wrapped belongs to the ranks that are ended",
            "held": "PicklingError: a Wrapped belongs to the ranks that are ended",
        },
    }


def test_none_is_used_where_a_rank_could_not_load_and_none_that_another_lacks(
    new_shell: Callable[[], Any], tmp_path: Path
) -> None:
    ran(new_shell(), "x, y = 1, 2").save(tmp_path)
    new = new_shell()
    variables = RankVariables(new, {"rank": 0})
    variables.stage(tmp_path, ())
    variables.use(is_wanted=False)
    assert "x" not in new.user_ns
    loaded(new, tmp_path, "y")
    assert new.user_ns["x"] == 1
    assert "y" not in new.user_ns


def test_ranks_that_are_ended_again_keep_what_they_had(new_shell: Callable[[], Any], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    ran(new_shell(), CELL).save(first)
    variables, _ = loaded(new_shell(), first)
    variables.save(second)
    new = new_shell()
    loaded(new, second)
    assert value(new, "(scaled(1), net.weights, Net.__name__)") == (2, [1.0, 2.0], "Net")


def test_definitions_are_found_under_magics_whose_cell_is_code(new_shell: Callable[[], Any]) -> None:
    shell = new_shell()
    cells = [
        shell.transform_cell(cell)
        for cell in (
            "%%time\ndef f():\n    return 1",
            "%%writefile g.py\ndef g():\n    return 2",
            "!ls\n@decorated\ndef h(): pass",
            "def broken(:",
            "if True:\n    def inner(): pass",
        )
    ]
    assert definitions(cells, shell) == ["def f():\n    return 1", "@decorated\ndef h():\n    pass"]


def test_files_are_this_users_own(new_shell: Callable[[], Any], tmp_path: Path) -> None:
    ran(new_shell(), "x = 1").save(tmp_path)
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "rank-0.pickle": 0o600,
        "rank-0.json": 0o600,
    }
    (tmp_path / "rank-0.pickle").rename(tmp_path / "elsewhere")
    (tmp_path / "rank-0.pickle").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a link"):
        loaded(new_shell(), tmp_path)


def test_a_world_that_nobody_asked_for_in_a_week_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path))
    old, new = (kept_variables.folder_of(name) for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(mode=0o700, parents=True)
    old.parent.chmod(0o700)
    past_s = time.time() - 8 * 86400
    os.utime(old, (past_s, past_s))
    kept_variables.remove_old(old.parent)
    assert (old.exists(), new.exists()) == (False, True)
    assert kept_variables.read("new") is None


def test_it_is_kept_at_a_restart_and_refused_on_other_hosts() -> None:
    spec = plan(2, gpus="none", keep_variables=True)
    assert spec.keep_variables
    assert replanned(spec, {"n": 1}).keep_variables
    elsewhere = Place("hosts", (HostSlots("nodea", 2),))
    with pytest.raises(InvalidInput, match="Variables are kept where all ranks are on this host"):
        plan(2, gpus="none", place=elsewhere, keep_variables=True)


def test_a_pickle_that_is_cut_off_raises(new_shell: Callable[[], Any], tmp_path: Path) -> None:
    ran(new_shell(), "x = 'long' * 100").save(tmp_path)
    file = tmp_path / "rank-0.pickle"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        loaded(new_shell(), tmp_path)


def test_a_model_that_is_not_built_does_not_keep_the_rest_from_being_saved(
    new_shell: Callable[[], Any], tmp_path: Path
) -> None:
    def variables(_: object) -> None:
        raise ValueError("Weights for model have not yet been created.")

    kind = type("Unbuilt", (), {"__module__": "tf_keras.src.engine.sequential", "variables": property(variables)})
    shell = new_shell()
    shell.user_ns["model"] = kind()
    told = ran(shell, "x = 1").save(tmp_path)
    assert told["kept"] == ["x"]
    assert set(told["left_out"]) == {"model"}
