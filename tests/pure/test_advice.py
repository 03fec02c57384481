"""What an error of a program under --auto tells after its traceback."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import pytest

from jupyter_ddl.engine import advice, rank_state
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.rank_state import RankState
from jupyter_ddl.protocol.cell_options import AutoOptions, CellOptions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


AUTO = CellOptions(auto=AutoOptions())


@pytest.fixture
def begin() -> Iterator[Callable[[Cell | None], None]]:
    def set_current(running: Cell | None) -> None:
        state.cells.current = running

    state = RankState()
    with rank_state.replaced(state):
        yield set_current


@pytest.mark.parametrize("error", [FileExistsError(17, "File exists", "a"), FileNotFoundError("a"), BadZipFile("a")])
def test_files_that_every_rank_makes(begin: Callable[[Cell | None], None], error: BaseException) -> None:
    begin(Cell(2, AUTO))
    told = advice.of(error)
    assert told is not None
    assert "with --auto every rank runs every line" in told
    assert "os.makedirs(path, exist_ok=True)" in told
    assert "jupyter_ddl.data.make_once(function) calls it on rank 0" in told


@pytest.mark.parametrize("running", [None, Cell(2), Cell(1, AUTO)])
def test_of_one_process_nothing_is_told(begin: Callable[[Cell | None], None], running: Cell | None) -> None:
    begin(running)
    assert advice.of(FileExistsError("a")) is None


def test_of_other_errors_nothing_is_told(begin: Callable[[Cell | None], None]) -> None:
    begin(Cell(2, AUTO))
    assert advice.of(PermissionError("a")) is None
    assert advice.of(ValueError("a")) is None


def test_what_was_added_is_told_whatever_the_error_makes_of_its_attributes() -> None:
    class Odd(ValueError):
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError(name)

    error = ValueError("a")
    advice.add(error, "write this")
    assert advice.of(error) == "write this"
    assert advice.of(Odd()) is None


def test_a_missing_framework_is_told_with_the_command_that_installs_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {one.partition(";")[0].strip() for extra in project["optional-dependencies"].values() for one in extra}
    for name in ("tensorflow", "keras.losses", "torch.nn", "jax", "sklearn"):
        told = advice.of(ModuleNotFoundError(f"No module named '{name}'", name=name))
        assert told is not None
        package, _, command = told.partition(" is not installed where this rank runs. Run: ")
        assert package == name.partition(".")[0]
        asked = command.removeprefix(f"{sys.executable} -m pip install ").strip("'")
        assert asked in extras
    assert "jupyter ddl build-horovod" in str(advice.of(ModuleNotFoundError("no", name="horovod.tensorflow")))


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("no", name="mine"), ModuleNotFoundError("no"), ImportError("no")]
)
def test_of_another_module_nothing_is_told(error: BaseException) -> None:
    assert advice.of(error) is None


class ProcessExitedException(Exception):
    """Stands for that of torch.multiprocessing."""


@pytest.mark.parametrize(
    "error",
    [
        ProcessExitedException("process 0 terminated with exit code 1"),
        RuntimeError("DataLoader worker (pid(s) 13425) exited unexpectedly"),
    ],
)
def test_processes_that_cannot_import_what_a_cell_defines(error: BaseException) -> None:
    assert "no process can import a cell" in str(advice.of(error))
    assert "%%writefile work.py" in str(advice.of(error))


@pytest.mark.parametrize(
    "error", [ProcessExitedException("process 0 terminated with signal SIGKILL"), RuntimeError("exited unexpectedly")]
)
def test_processes_that_ended_otherwise(error: BaseException) -> None:
    assert advice.of(error) is None


def test_a_worker_that_a_signal_ended() -> None:
    error = RuntimeError("DataLoader worker (pid(s) 13425) exited unexpectedly")
    error.__cause__ = RuntimeError("DataLoader worker (pid 13425) is killed by signal: Killed.")
    assert advice.of(error) is None


def raised_through(name: str, *files: str) -> ModuleNotFoundError:
    """Return the error of a module that is missing, raised in the last of these files, each of which calls the next."""
    code = f"def call():\n    raise ModuleNotFoundError('no {name}', name={name!r})"
    scope: dict[str, Any] = {}
    for file in reversed(files):
        scope = {"inner": scope.get("call")}
        exec(compile(code, file, "exec"), scope)
        code = "def call():\n    inner()"
    with pytest.raises(ModuleNotFoundError) as caught:
        scope["call"]()
    return caught.value


OURS = str(Path(advice.__file__).parents[1] / "keras.py")


@pytest.mark.parametrize(
    ("name", "files", "shown"),
    [
        ("keras", ("cell", OURS, OURS), ["cell"]),
        # What the program's own module imports is its concern.
        ("torch", ("cell", OURS, "model.py"), ["cell", OURS, "model.py"]),
        # Not a framework: the fault is ours, and its place is needed.
        ("msgspec", ("cell", OURS), ["cell", OURS]),
    ],
)
def test_a_missing_framework_is_shown_where_the_program_imported_a_module_of_ours(
    name: str, files: tuple[str, ...], shown: list[str]
) -> None:
    error = raised_through(name, *files)
    advice.leave_out_our_imports(error)
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert [file for file in frames if file != __file__] == shown
