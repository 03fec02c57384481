"""The table of old spellings: every row is whole, installed, said, and on the page."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_ddl.legacy
from jupyter_ddl.legacy import notices
from jupyter_ddl.legacy.page import render
from jupyter_ddl.protocol.old_spellings import ROWS, Row

PACKAGE = Path(jupyter_ddl.legacy.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "legacy.md"


def literals_said() -> set[str]:
    """Return every row's name that the code says or hands on to be said."""
    known = {row.name for row in ROWS}
    found: set[str] = set()
    for file in PACKAGE.glob("*.py"):
        if file.name != "table.py":
            strings = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
            found |= {one for one in strings if isinstance(one, str) and one in known}
    return found


def names_in_say() -> set[str]:
    """Return what `say("...")` is called with."""
    calls = [
        node
        for file in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
    ]
    return {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_a_sentence_and_a_function(row: Row) -> None:
    assert row.today.endswith(".")
    assert "|" not in row.written + row.today
    module, _, function = row.installed_by.partition(".")
    assert callable(getattr(importlib.import_module(f"jupyter_ddl.legacy.{module}"), function))
    assert row.root in ("keras", "tensorflow")


def test_every_row_is_said_and_all_that_is_said_is_a_row() -> None:
    rows = {row.name for row in ROWS}
    assert literals_said() == rows
    assert names_in_say() <= rows


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == render(), "run: python -m jupyter_ddl.legacy.page > docs/legacy.md"


def test_a_sentence_is_said_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_printed", [])
    for _ in range(2):
        notices.say("lr")
    assert capsys.readouterr().err == "Old spelling: lr is written learning_rate in optimizers.\n"
    assert notices.printed_rows() == ["lr"]
    with pytest.raises(KeyError):
        notices.say("no such row")


INSTALL = """
import sys, time
import jupyter_ddl.legacy
before = list(sys.meta_path)
began = time.perf_counter()
jupyter_ddl.legacy.install()
jupyter_ddl.legacy.install()
took = time.perf_counter() - began
heavy = [name for name in ("tensorflow", "keras", "horovod", "numpy.testing") if name in sys.modules]
print(len(sys.meta_path) - len(before), heavy, took < 0.05)
"""


@pytest.mark.parametrize(
    ("variables", "finders"),
    [
        ({}, 1),
        ({"JUPYTER_DDL_LEGACY": "1"}, 1),
        ({"JUPYTER_DDL_LEGACY": "0"}, 0),
        ({"TF_USE_LEGACY_KERAS": "1"}, 0),
        ({"TF_USE_LEGACY_KERAS": "0"}, 1),
    ],
)
def test_installing_is_cheap_and_can_be_switched_off(
    variables: dict[str, str], finders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JUPYTER_DDL_LEGACY", "TF_USE_LEGACY_KERAS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    child = subprocess.run([sys.executable, "-c", INSTALL], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout == f"{finders} [] True\n"


KERAS_2 = """
import sys
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "keras" / "layers").mkdir(parents=True)
(folder / "keras" / "__init__.py").write_text("__version__ = '2.15.0'\\nfrom keras import layers\\n")
(folder / "keras" / "layers" / "__init__.py").write_text("")
(folder / "keras" / "layers" / "core.py").write_text("own = True\\n")
sys.path.insert(0, str(folder))
import jupyter_ddl.legacy
jupyter_ddl.legacy.install()
import keras, keras.layers.core
assert keras.layers.core.own
assert not hasattr(keras.layers, "normalization")
assert "__getattr__" not in vars(keras.layers)
try:
    import keras.layers.normalization
except ModuleNotFoundError as error:
    print(error)
"""


def test_keras_2_is_left_alone(tmp_path: Path) -> None:
    """A stand-in with Keras 2's version: what is asked is that nothing of it is touched."""
    child = subprocess.run(
        [sys.executable, "-c", KERAS_2, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert child.stdout == "No module named 'keras.layers.normalization'\n", child.stderr
