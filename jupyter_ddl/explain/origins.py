"""Traces where a value comes from: through names, attributes, functions and their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import libcst as cst

from jupyter_ddl.explain.data_kinds import returned, yields
from jupyter_ddl.modernise.names import code_of, found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.explain.names import Names

# What made a value: an expression, a class whose object it is, or a name that is bound elsewhere.
Origin: TypeAlias = "cst.CSTNode | str"


class Origins:
    """Looks up what expressions of one program come from.

    Args:
        names: of the program.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._attributes: dict[str, list[cst.BaseExpression]] = {}
        for assignment in found(names.module, cst.Assign):
            for target in assignment.targets:
                if isinstance(target.target, cst.Attribute):
                    self._attributes.setdefault(code_of(target.target), []).append(assignment.value)

    def of(self, value: cst.BaseExpression, before: int | None = None) -> set[Origin]:
        """Return what makes the values that an expression may have.

        Args:
            value: the expression.
            before: a line; what a name was assigned in lines before it is replaced by the last of these.
        """
        return set(self._of(value, frozenset(), before))

    def _of(self, value: cst.BaseExpression, seen: frozenset[int], before: int | None = None) -> Iterator[Origin]:
        if id(value) in seen:
            return
        seen |= {id(value)}
        if isinstance(value, cst.Name):
            yield from self._of_name(value, seen, before)
            return
        made_of = self._parts(value)
        if made_of is None:
            is_text = isinstance(value, cst.Subscript) and isinstance(value.value, cst.Name)
            yield code_of(value) if is_text or isinstance(value, cst.Attribute) else value
        else:
            for part in made_of:
                yield from (self._of(part, seen) if isinstance(part, cst.BaseExpression) else [part])

    def _parts(self, value: cst.BaseExpression) -> list[Any] | None:
        """Return which expressions give an expression its value, or the class whose object it is; None for itself."""
        if isinstance(value, cst.Call):
            return self._results(value)
        if isinstance(value, cst.IfExp):
            return [value.body, value.orelse]
        if isinstance(value, cst.NamedExpr):
            return [value.value]
        if isinstance(value, cst.Subscript):
            return self._elements(value.value)
        return self._attributes.get(code_of(value)) if isinstance(value, cst.Attribute) else None

    def _of_name(self, name: cst.Name, seen: frozenset[int], before: int | None) -> Iterator[Origin]:
        bindings = self._names.bindings(name)
        if not bindings:
            yield (self._class_of(name) if name.value == "self" else None) or name.value
            return
        assigned = [(node, self._names.assignment(node)) for node in bindings]
        if before is not None and all(given is not None for _, given in assigned):
            # Of the assignments before that line the last; where there is none, all of them.
            earlier = [each for each in assigned if self._names.line(each[0]) <= before]
            assigned = [max(earlier, key=lambda each: self._names.line(each[0]))] if earlier else assigned
        for node, given in assigned:
            parameter = node if isinstance(node, cst.Param) else next(self._names.around(node), None)
            if given is not None and not given[1]:
                yield from self._of(given[0], seen)
            elif isinstance(parameter, cst.Param):
                yield from self._of_parameter(parameter, seen)
            else:
                yield node

    def _class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class that a node stands in the methods of; None outside of one."""
        return next((each for each in self._names.around(node) if isinstance(each, cst.ClassDef)), None)

    def _of_parameter(self, parameter: cst.Param, seen: frozenset[int]) -> Iterator[Origin]:
        """Yield what a function's parameter is given in the calls of it, or the parameter where none is seen."""
        name = parameter.name.value
        parameters, function = list(self._names.around(parameter))[:2]
        if not isinstance(function, cst.FunctionDef):
            yield parameter
            return
        owner = self._class_of(function)
        positions = [each.name.value for each in parameters.params]
        if owner is not None:
            if positions[:1] == [name]:
                yield owner  # self
                return
            positions = positions[1:]
        calls = [call for call in self._names.calls if _called(call) == function.name.value]
        given = [_argument(call, name, positions) for call in calls]
        if not given or None in given:
            yield parameter
            return
        for value in given:
            if value is not None:
                yield from self._of(value, seen)

    def _results(self, call: cst.Call) -> list[Any] | None:
        """Return what a function of this code returns, or the class that is called; None for others."""
        if (made := self._names.definition(call.func, cst.ClassDef)) is not None:
            return [made]
        function = self._names.definition(call.func, cst.FunctionDef)
        return None if function is None or yields(function) else returned(function) or None

    def _elements(self, container: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """Return what a list or dict that is written out holds; else None: its text means the same elsewhere."""
        given = [value for value, _ in self._names.assigned(container) or []]
        displays = [each for each in given if isinstance(each, (cst.List, cst.Tuple, cst.Dict))]
        if not displays or len(displays) != len(given):
            return None
        return [element.value for display in displays for element in display.elements]


def _called(call: cst.Call) -> str:
    """Return the last part of the name of what is called."""
    return code_of(call.func).rpartition(".")[2]


def _argument(call: cst.Call, name: str, positions: list[str]) -> cst.BaseExpression | None:
    if any(arg.star for arg in call.args):
        return None
    by_place = iter(positions)
    given = {next(by_place, "?") if arg.keyword is None else arg.keyword.value: arg.value for arg in call.args}
    return given.get(name)
