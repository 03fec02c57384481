"""Traces where a value comes from: through names, attributes, functions and their parameters."""

# ruff: noqa: N802 (libcst's hooks)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import libcst as cst
from libcst.metadata import ParentNodeProvider

from jupyter_ddl.explain.data_kinds import Returns
from jupyter_ddl.modernise.names import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.explain.names import Names

# What made a value: an expression, a class whose object it is, or a name that is bound elsewhere.
Origin: TypeAlias = "cst.CSTNode | str"


class Origins:
    """Looks up what expressions of one program come from.

    Args:
        names: of the program, visited.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        finder = _Finder()
        names.wrapper.module.visit(finder)
        self._calls, self._attributes = finder.calls, finder.attributes
        self.classes = finder.classes

    def of(self, value: cst.BaseExpression, before: int | None = None) -> set[Origin]:
        """Return what makes the values that an expression may have.

        Args:
            value: the expression.
            before: a line; what a name was assigned in lines before it is replaced by the last of these.
        """
        return set(self._of(value, frozenset(), before))

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class that a node stands in the methods of; None outside of one."""
        while (parent := self._parent(node)) is not None:
            if isinstance(parent, cst.ClassDef):
                return parent
            node = parent
        return None

    def _of(self, value: cst.BaseExpression, seen: frozenset[int], before: int | None = None) -> Iterator[Origin]:
        if id(value) in seen:
            return
        seen |= {id(value)}
        if isinstance(value, cst.Name):
            yield from self._of_name(value, seen, before)
        elif isinstance(value, cst.Call):
            yield from self._of_call(value, seen)
        elif isinstance(value, cst.IfExp):
            yield from self._of(value.body, seen)
            yield from self._of(value.orelse, seen)
        elif isinstance(value, cst.NamedExpr):
            yield from self._of(value.value, seen)
        elif isinstance(value, cst.Subscript) and isinstance(value.value, cst.Name):
            yield from self._of_container(value, seen)
        elif isinstance(value, cst.Attribute) and (given := self._attributes.get(code_of(value))):
            for part in given:
                yield from self._of(part, seen)
        elif isinstance(value, cst.Attribute):
            yield code_of(value)
        else:
            yield value

    def _of_name(self, name: cst.Name, seen: frozenset[int], before: int | None) -> Iterator[Origin]:
        bindings = self._names.bindings(name)
        if not bindings:
            if name.value == "self" and (owner := self.class_of(name)) is not None:
                yield owner
            else:
                yield name.value
            return
        assigned = [(node, self._names.assignment(node)) for node in bindings]
        if before is not None and all(given is not None for _, given in assigned):
            assigned = self._last(assigned, before)
        for node, given in assigned:
            if given is not None and not given[1]:
                yield from self._of(given[0], seen)
            elif isinstance(parent := self._parent(node), cst.Param) or isinstance(node, cst.Param):
                yield from self._of_parameter(node if isinstance(node, cst.Param) else parent, seen)
            else:
                yield node

    def _last(self, assigned: list[Any], before: int) -> list[Any]:
        """Return the last of the assignments before a line, and where there is none, all of them."""
        earlier = [each for each in assigned if self._names.line(each[0]) <= before]
        return [max(earlier, key=lambda each: self._names.line(each[0]))] if earlier else assigned

    def _of_parameter(self, parameter: Any, seen: frozenset[int]) -> Iterator[Origin]:
        """Return what a function's parameter is given in the calls of it, or the parameter where none is seen."""
        name = parameter.name.value
        parameters = self._parent(parameter)
        function = self._parent(parameters)
        if not isinstance(function, cst.FunctionDef):
            yield parameter
            return
        owner = self.class_of(function)
        positions = [each.name.value for each in getattr(parameters, "params", ())]
        if owner is not None:
            if positions[:1] == [name]:
                yield owner  # self
                return
            positions = positions[1:]
        given = [self._argument(call, name, positions) for call in self._calls.get(function.name.value, [])]
        if not given or None in given:
            yield parameter
            return
        for value in given:
            if value is not None:
                yield from self._of(value, seen)

    def _argument(self, call: cst.Call, name: str, positions: list[str]) -> cst.BaseExpression | None:
        if any(arg.star for arg in call.args):
            return None
        by_place = iter(positions)
        found = {next(by_place, "?") if arg.keyword is None else arg.keyword.value: arg.value for arg in call.args}
        return found.get(name)

    def _of_call(self, call: cst.Call, seen: frozenset[int]) -> Iterator[Origin]:
        if (made := self._names.definition(call.func, cst.ClassDef)) is not None:
            yield made
            return
        function = self._names.definition(call.func, cst.FunctionDef)
        if function is None:
            yield call
            return
        returns = Returns()
        function.body.visit(returns)
        if not returns.values or returns.yields:
            yield call
        for value in returns.values:
            yield from self._of(value, seen)

    def _of_container(self, value: cst.Subscript, seen: frozenset[int]) -> Iterator[Origin]:
        """Return what a list or dict that is written out holds; else the text, which means the same elsewhere."""
        given = self._names.assigned(value.value) if isinstance(value.value, cst.Name) else None
        displays = [part for part, is_part in given or [] if isinstance(part, (cst.List, cst.Tuple, cst.Dict))]
        if not displays or len(displays) != len(given or []):
            yield code_of(value)
            return
        for display in displays:
            for element in display.elements:
                yield from self._of(element.value, seen)

    def _parent(self, node: Any) -> Any:
        return self._names.get_metadata(ParentNodeProvider, node, None)


class _Finder(cst.CSTVisitor):
    """All calls by the last part of what they call, all assignments to attributes by their text, and all classes."""

    def __init__(self) -> None:
        self.calls: dict[str, list[cst.Call]] = {}
        self.attributes: dict[str, list[cst.BaseExpression]] = {}
        self.classes: list[cst.ClassDef] = []

    def visit_Call(self, node: cst.Call) -> None:
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if isinstance(name, cst.Name):
            self.calls.setdefault(name.value, []).append(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if isinstance(target.target, cst.Attribute):
                self.attributes.setdefault(code_of(target.target), []).append(node.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.append(node)
