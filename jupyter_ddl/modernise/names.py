"""What a name in a program means, whichever way it was imported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import libcst as cst
from libcst.metadata import (
    Assignment,
    ImportAssignment,
    ParentNodeProvider,
    QualifiedNameProvider,
    ScopeProvider,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from libcst.metadata import BaseMetadataProvider

KERAS_LAYER = ("horovod.tensorflow.keras", "horovod.keras", "jupyter_ddl.keras")
_COMPAT = re.compile(r"^tensorflow\.compat\.v[12]\.")
_OPTIMIZER_NAME = re.compile(r"(?:^|_)(?:opt|optimi[sz]er)(?:_|$)", re.IGNORECASE)
_Node = TypeVar("_Node", bound=cst.CSTNode)


def canonical(name: str) -> str:
    """Return a full name without what only says where it is imported from.

    >>> canonical("tensorflow.compat.v1.keras.backend.set_session")
    'keras.backend.set_session'
    >>> canonical("horovod.tensorflow.keras.callbacks.MetricAverageCallback")
    'hvd.callbacks.MetricAverageCallback'
    """
    name = _COMPAT.sub("tensorflow.", name)
    name = re.sub(r"^tensorflow\.(?:python\.)?keras\b", "keras", name)
    for prefix in (*KERAS_LAYER, "horovod.tensorflow"):
        if name.startswith(f"{prefix}."):
            return f"hvd{name.removeprefix(prefix)}"
    return name


class Codemod(cst.CSTTransformer):
    """A transformer that knows what names mean."""

    METADATA_DEPENDENCIES: ClassVar[tuple[type[BaseMetadataProvider[Any]], ...]] = (
        QualifiedNameProvider,
        ScopeProvider,
        ParentNodeProvider,
    )

    def meaning(self, node: cst.CSTNode) -> str:
        """Return the canonical full name of a name or attribute of the original tree; empty where it is not known."""
        found = self.get_metadata(QualifiedNameProvider, node, set())
        names = {canonical(qualified.name) for qualified in found}
        return names.pop() if len(names) == 1 else ""

    def is_optimizer(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression is an optimizer: by where it comes from, or else by its name."""
        if isinstance(node, cst.Attribute):
            return bool(_OPTIMIZER_NAME.search(node.attr.value))
        if isinstance(node, cst.Call):
            return self.makes_optimizer(node)
        return isinstance(node, cst.Name) and (bool(_OPTIMIZER_NAME.search(node.value)) or self._is_assigned_one(node))

    def makes_optimizer(self, call: cst.Call) -> bool:
        """Return whether a call makes an optimizer."""
        meaning = self.meaning(call.func)
        return meaning == "hvd.DistributedOptimizer" or optimizer_class(meaning) is not None

    def _is_assigned_one(self, name: cst.Name) -> bool:
        given = self.assigned(name) or []
        return bool(given) and all(isinstance(value, cst.Call) and self.makes_optimizer(value) for value, _ in given)

    def around(self, node: cst.CSTNode) -> Iterator[Any]:
        """Yield what a node is in, from its parent to the module."""
        while (parent := self.get_metadata(ParentNodeProvider, node, None)) is not None:
            yield parent
            node = parent

    def bindings(self, name: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the nodes that bind a name in its scope: what it is assigned to, parameters, imports."""
        bound = (self.bound_by(name) or set()) if isinstance(name, cst.Name) else set()
        return [binding.node for binding in bound if isinstance(binding, Assignment)]

    def assignment(self, target: cst.CSTNode) -> tuple[cst.BaseExpression, bool] | None:
        """Return what a node that binds a name assigns to it, and whether it is a part of that; None for others."""
        is_part = False
        for node in self.around(target):
            if isinstance(node, (cst.Element, cst.Tuple, cst.List)):
                is_part = True
            elif isinstance(node, (cst.Assign, cst.AnnAssign)):
                return None if node.value is None else (node.value, is_part)
            elif not isinstance(node, cst.AssignTarget):
                break
        return None

    def assigned(self, name: cst.CSTNode) -> list[tuple[cst.BaseExpression, bool]] | None:
        """Return what a name is assigned, each with whether that is a part of it (`a, b = it`).

        None where it is bound in another way, too (a parameter, `for`, `with`), or nowhere in this code.
        """
        given = [self.assignment(node) for node in self.bindings(name)]
        return None if None in given or not given else [each for each in given if each is not None]

    def is_imported(self, node: cst.CSTNode) -> bool:
        """Return whether the first of a dotted name's parts is one that this code imports."""
        return any(isinstance(binding, ImportAssignment) for binding in self.bound_by(node) or ())

    def bound_by(self, node: cst.CSTNode) -> Any:
        """Return what binds the first of a dotted name's parts; None for what is no name."""
        while isinstance(node, cst.Attribute):
            node = node.value
        scope = self.get_metadata(ScopeProvider, node, None)
        return None if scope is None or not isinstance(node, cst.Name) else scope[node.value]


def optimizer_class(meaning: str) -> str | None:
    """Return the class that a canonical name of an optimizer stands for, also an old name; None for other names."""
    match = re.fullmatch(r"keras\.optimizers\.(?:(?:legacy|experimental)\.)?(\w+)", meaning)
    if match is None:
        return None
    return {name.lower(): name for name in OPTIMIZERS}.get(match[1].lower())


# With the learning rate that Keras gives each where none is passed.
# Source: keras 3.15, src/optimizers/*.py, the default of learning_rate
OPTIMIZERS = {
    **dict.fromkeys(("RMSprop", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "Nadam", "Ftrl"), "0.001"),
    **dict.fromkeys(("Adafactor", "Lion", "Lamb", "Muon"), "0.001"),
    "SGD": "0.01",
    "ScheduleFreeAdamW": "0.0025",
}


def found(node: cst.CSTNode, kind: type[_Node], *, outside: tuple[type[cst.CSTNode], ...] = ()) -> Iterator[_Node]:
    """Yield the nodes of a kind in a tree, in the program's order; none in nodes of the kinds `outside`."""
    if isinstance(node, outside):
        return
    if isinstance(node, kind):
        yield node
    for child in node.children:
        yield from found(child, kind, outside=outside)


def rate_argument(call: cst.Call) -> cst.Arg | None:
    """Return the learning rate that an optimizer's class is called with: by name, or first."""
    first = call.args[0] if call.args and call.args[0].keyword is None and not call.args[0].star else None
    return keyword(call, "lr", "learning_rate") or first


def keyword(call: cst.Call, *names: str) -> cst.Arg | None:
    """Return the first argument of a call that is passed by one of these names."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value in names), None)


def without(args: Iterable[cst.Arg], *names: str) -> list[cst.Arg]:
    """Return arguments without those passed by these names; a last one keeps how the last one was written."""
    args = list(args)
    kept = [arg for arg in args if arg.keyword is None or arg.keyword.value not in names]
    if kept and args and kept[-1] is not args[-1]:
        last = args[-1]
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return kept


def renamed(arg: cst.Arg, name: str) -> cst.Arg:
    """Return an argument under another name."""
    return arg.with_changes(keyword=cst.Name(name))


def replaced(args: Iterable[cst.Arg], old: cst.Arg, new: cst.Arg) -> list[cst.Arg]:
    """Return arguments with one in the place of another."""
    return [new if arg is old else arg for arg in args]


def added(args: Iterable[cst.Arg], new: cst.Arg) -> list[cst.Arg]:
    """Return arguments with one more at the end, laid out as the others are."""
    args = list(args)
    if not args:
        return [new]
    last = args[-1]
    comma = args[-2].comma if len(args) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    has_comma = isinstance(last.comma, cst.Comma)
    end = {"comma": last.comma, "whitespace_after_arg": last.whitespace_after_arg} if has_comma else {}
    args[-1] = last.with_changes(comma=comma)
    return [*args, new.with_changes(**end)]


def code_of(node: cst.CSTNode) -> str:
    """Return a node as text."""
    return cst.Module([]).code_for_node(node)


def argument(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return `name=value`."""
    bare = cst.SimpleWhitespace("")
    return cst.Arg(value, keyword=cst.Name(name), equal=cst.AssignEqual(whitespace_before=bare, whitespace_after=bare))
