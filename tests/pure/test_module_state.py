"""No module keeps state, but for the few that are listed here with the reason (CONTRIBUTING.md, "State")."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(jupyter_ddl.__file__).parent
# What belongs to a process, of which there is one.
LISTED = {
    "engine.rank_state._process": "which rank this process is: what a program calls has no other way to it",
    "host.patching._register": "a process has one of each library, and these are its functions",
    "host.import_hooks._FINDER": "a process has one import system",
    "kernel.current._sessions": "which sessions this kernel has: the magics have no other way to them",
    "legacy.hooks._changed": "which of the process's libraries the old spellings are in",
    "legacy.hooks._lock": "guards it",
    "legacy.names._moved": "what Keras's public modules answer for",
    "legacy.names._instead": "likewise",
    "legacy.names._replaced": "likewise",
    "legacy.names._gone": "likewise",
    "legacy.names._refused": "likewise",
    "legacy.notices._printed": "each sentence is printed once a process",
    "legacy.notices._lock": "guards it",
    "legacy.learning_phase._phase": "Keras 2 had one learning phase for the process",
    "legacy.sessions._current": "TensorFlow 1 had one default session for the process",
    "legacy.sessions._in_v1": "what the module tensorflow.compat.v1 answers for",
    "training.backends.__init__.BACKEND": "Keras's, which is settled when it is imported",
    "horovod_api.horovod.__path__": "where Python looks for a package's modules: nowhere",
    "horovod_api.process_sets.global_process_set": "Horovod's name of the set of all ranks",
    "pipelines.owned_folders._own": "this process's folders on this host",
    "pipelines.cache._numbers": "numbers the files in them",
}
# By a user's object, for as long as it lives: Keras's and TensorFlow's take no attribute of ours, or would save it.
OF_OBJECTS = {"WeakKeyDictionary", "WeakSet"}
# Set for the length of a call, and for that call only.
OF_CALLS = {"ContextVar"}
# What they make never changes.
OF_CONSTANTS = {
    *("compile", "Path", "TypeVar", "object", "tuple", "Struct", "attrgetter", "Context", "rank_file_pattern"),
    *("JSONEncoder", "getLogger", "cache", "MonotonicClock", "Comma", "CellOptions", "ReleaseTimes", "Place"),
    *("replace", "format", "get_args", "Cursor", "BenchmarkModel", "Refused"),
}
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE).with_suffix("").parts)


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module sets, and to what."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield ast.unparse(target), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


def is_state(value: ast.expr) -> bool:
    """Return whether a value may change: a container that begins empty, or an object that is no known constant."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call):
        return False
    called = ast.unparse(value.func).rpartition(".")[2]
    return called not in OF_OBJECTS | OF_CALLS | OF_CONSTANTS


def state_of(tree: ast.Module) -> list[str]:
    return [name for name, value in assigned(tree) if is_state(value)]


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_no_function_sets_a_name_of_its_module(file: Path) -> None:
    assert not [node.lineno for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Global)]


def test_the_state_of_modules_is_the_list() -> None:
    found = {f"{module_of(file)}.{name}" for file in FILES for name in state_of(ast.parse(file.read_text()))}
    assert found - set(LISTED) == set(), "Hold it in rank_state, or in an object that is passed; else list it, and why."
    assert set(LISTED) - found == set()


@pytest.mark.parametrize(
    "text", ["x = {}", "x: set[str] = set()", "x = Meter()", "x = y = []", "x = itertools.count()"]
)
def test_state_is_found(text: str) -> None:
    assert state_of(ast.parse(text))[0] == "x"


@pytest.mark.parametrize(
    "text",
    ["X = re.compile('a')", "X = (1, 2)", "X = {'a': 1}", "X = 'a {}'.format(1)", "X = _A.format(1).replace('b', '')"],
)
def test_constants_are_none(text: str) -> None:
    assert state_of(ast.parse(text)) == []
