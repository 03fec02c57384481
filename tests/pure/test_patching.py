"""The register of patches: order of layers, undo, and the table that says what they are for."""

from __future__ import annotations

import inspect
import itertools
import json
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.host import patching
from jupyter_ddl.host.patching import Layer, absent, around, definer, instead, patch
from jupyter_ddl.protocol.patch_table import PATCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Base:
    """What a library may have."""

    def fit(self, x: int, *, epochs: int = 1) -> str:
        """Train."""
        return f"stock {x} {epochs}"

    @staticmethod
    def made(x: int) -> str:
        return f"made {x}"

    @classmethod
    def named(cls) -> str:
        return cls.__name__

    @property
    def size(self) -> int:
        return 1


class Model(Base):
    """A class that inherits all."""


@pytest.fixture(autouse=True)
def _undone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Of its own: what other tests of this process have patched stays.
    monkeypatch.setattr(patching, "_register", patching._Register())
    yield
    assert patching.undo_all() == []
    assert not vars(Model).keys() & {"fit", "made", "named", "size"}


def saying(word: str) -> Callable[..., str]:
    def ours(stock: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
        return f"{word}({stock(*args, **kwargs)})"

    return ours


LAYERS = {Layer.FIT: saying("fit"), Layer.AUTO: saying("auto"), Layer.LEGACY: saying("legacy")}


@pytest.mark.parametrize("order", list(itertools.permutations(LAYERS)))
def test_layers_keep_their_order_in_whichever_order_they_come(order: tuple[Layer, ...]) -> None:
    for layer in order:
        patch(Model, "fit", LAYERS[layer], layer)
    assert Model().fit(2, epochs=3) == "legacy(auto(fit(stock 2 3)))"
    assert [one.layer for one in patching.patches()] == sorted(LAYERS)


def test_within_a_layer_the_later_patch_is_called_first() -> None:
    patch(Model, "fit", saying("first"), Layer.FIT)
    patch(Model, "fit", saying("second"), Layer.FIT)
    assert Model().fit(1) == "second(first(stock 1 1))"


def test_the_same_patch_is_made_once() -> None:
    first = patch(Model, "fit", LAYERS[Layer.FIT], Layer.FIT)
    assert patch(Model, "fit", LAYERS[Layer.FIT], Layer.FIT) is first
    assert Model().fit(1) == "fit(stock 1 1)"


def test_undo_puts_back_the_very_object() -> None:
    stock = vars(Base)["fit"], vars(Base)["made"], vars(Base)["named"], vars(Base)["size"]
    for name in ("fit", "made", "named", "size"):
        for layer, ours in LAYERS.items():
            patch(Base, name, ours, layer)
    assert (Base.made(1), Base.named()) == ("legacy(auto(fit(made 1)))", "legacy(auto(fit(Base)))")
    assert Base().size == "legacy(auto(fit(1)))"  # type: ignore[comparison-overlap]
    assert patching.undo_all() == []
    assert all(
        here is before
        for here, before in zip([vars(Base)[name] for name in ("fit", "made", "named", "size")], stock, strict=True)
    )


def test_what_was_there_before_any_patch_is_known() -> None:
    stock = vars(Base)["fit"]
    assert patching.unpatched(Base, "fit") is stock
    for layer, ours in LAYERS.items():
        patch(Base, "fit", ours, layer)
    assert patching.unpatched(Base, "fit") is stock


def test_a_middle_layer_can_be_undone_alone() -> None:
    made = {layer: patch(Model, "fit", ours, layer) for layer, ours in LAYERS.items()}
    assert made[Layer.AUTO].undo()
    assert Model().fit(1) == "legacy(fit(stock 1 1))"
    assert made[Layer.AUTO].undo(), "it is out already"


def test_an_inherited_method_is_patched_in_the_class_alone() -> None:
    patch(Model, "fit", LAYERS[Layer.FIT], Layer.FIT)
    assert Base().fit(1) == "stock 1 1"
    assert definer(Model, "size") is Base
    assert definer(Model, "fit") is Model


def test_an_object_a_module_and_what_is_not_there_can_be_patched() -> None:
    model, module = Model(), ModuleType("library")
    patch(model, "fit", LAYERS[Layer.FIT], Layer.FIT)
    patch(module, "load", len, Layer.LEGACY, instead)
    assert model.fit(1) == "fit(stock 1 1)"
    assert module.load([1, 2]) == 2
    assert patching.undo_all() == []
    assert vars(model) == {}
    assert not hasattr(module, "load")


def test_what_the_program_put_around_ours_stays() -> None:
    below = patch(Base, "fit", LAYERS[Layer.LEGACY], Layer.LEGACY)
    ours = vars(Base)["fit"]

    def theirs(self: Base, x: int) -> str:
        return f"theirs({ours(self, x)})"

    Base.fit = theirs  # type: ignore[method-assign,assignment]
    assert not below.undo()
    assert patching.undo_all() == [below]
    patch(Base, "fit", LAYERS[Layer.FIT], Layer.FIT)
    assert Base().fit(1) == "fit(theirs(legacy(stock 1 1)))"
    assert patching.undo_all() == [below]
    assert vars(Base)["fit"] is theirs
    Base.fit = ours  # type: ignore[method-assign]
    assert patching.undo_all() == []
    assert Base().fit(1) == "stock 1 1"


def test_a_replacement_looks_as_the_stock_method() -> None:
    patch(Base, "fit", LAYERS[Layer.FIT], Layer.FIT)
    assert Base.fit.__doc__ == "Train."
    assert str(inspect.signature(Base.fit)) == "(self, x: 'int', *, epochs: 'int' = 1) -> 'str'"
    assert inspect.getfullargspec(around(len, saying("")))[0] == ["obj"]
    assert "workers" in inspect.signature(around(Base.fit, saying(""), also=("workers", "epochs"))).parameters


def test_each_patch_is_declared_once() -> None:
    declared = [(row.owner, name, row.layer) for row in PATCHES for name in row.names]
    assert len(declared) == len(set(declared))
    assert all(row.reason and row.versions for row in PATCHES)


def test_doctor_prints_the_table_without_tensorflow() -> None:
    program = (
        "import sys\nfrom jupyter_ddl.cli import main\nstatus = main(sys.argv[1:])\n"
        "assert not {'tensorflow', 'keras', 'horovod', 'jupyter_ddl.engine'} & set(sys.modules)\nsys.exit(status)"
    )

    def printed(*arguments: str) -> str:
        command = [sys.executable, "-c", program, "doctor", "--patches", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    text = printed()
    for row in PATCHES:
        assert f"  {row.owner}: {row.names[0]}" in text
        assert f"{row.library} {row.versions}" in text
        assert row.reason in text
    assert [row["owner"] for row in json.loads(printed("--json"))] == [row.owner for row in PATCHES]


def test_a_module_can_lack_a_name_so_that_it_is_asked_for_it() -> None:
    module = ModuleType("library")
    vars(module).update(old=1, kept=2)
    asked = []

    def answer(name: str) -> str:
        asked.append(name)
        return f"answer {name}"

    for _ in range(2):
        lacks = patch(module, "old", answer, Layer.NAMES, absent)
        patch(module, "__getattr__", answer, Layer.NAMES, instead)
    assert (module.old, module.kept, asked) == ("answer old", 2, ["old"])
    asked.clear()
    assert lacks.undo()
    assert (module.old, asked) == (1, [])
    assert patching.undo_all() == []
    assert not hasattr(module, "answer")
    assert "__getattr__" not in vars(module)


def test_a_name_that_other_code_has_set_meanwhile_stays() -> None:
    module = ModuleType("library")
    vars(module).update(old=1)
    lacks = patch(module, "old", print, Layer.NAMES, absent)
    vars(module)["old"] = 3
    assert not lacks.undo()
    del vars(module)["old"]
    assert lacks.undo()
    assert vars(module)["old"] == 1
