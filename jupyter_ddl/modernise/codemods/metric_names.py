"""`acc` is `accuracy`: in metrics, monitors, histories and checkpoints' file names; and `lr` in histories."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.modernise.names import Codemod, found, keyword

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OLD = {"acc": "accuracy", "val_acc": "val_accuracy"}
_IN_FILE_NAME = re.compile(r"\{(val_)?acc(?=[:!}])")
_LOGS = {"logs", "history", "hist"}
_CHECKPOINTS = ("keras.callbacks.ModelCheckpoint", "hvd.callbacks.BestModelCheckpoint")


class Logs(Codemod):
    """Names of metrics, as strings."""

    def visit_Module(self, node: cst.Module) -> None:
        calls = list(found(node, cst.Call))
        assigned = [(target.target, each.value) for each in found(node, cst.Assign) for target in each.targets]
        logged = (target for target, _ in assigned if isinstance(target, cst.Subscript) and _is_logs(target.value))
        written = {str(string.evaluated_value) for string in _strings(logged)}
        self._metrics = _strings(_metrics(calls))
        paths = [path for call in calls if self.meaning(call.func) in _CHECKPOINTS for path in _path(call)]
        # A file name that was given a name first.
        names = {name.value for path in paths for name in found(path, cst.Name)}
        paths += [value for target, value in assigned if isinstance(target, cst.Name) and target.value in names]
        self._file_names = _strings(paths)
        # A metric of the program's own that is called acc is logged as acc today too, and what it logs itself as well.
        self._has_own = _defines_acc(node) or not written.isdisjoint(_OLD)
        self._writes_lr = "lr" in written

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        if self._has_own:
            return updated_node
        if original_node in self._metrics:
            return _replaced(updated_node, _OLD)
        if original_node in self._file_names:
            value = _IN_FILE_NAME.sub(lambda match: f"{{{match[1] or ''}accuracy", updated_node.value)
            return updated_node.with_changes(value=value)
        return updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        is_monitor = original_node.keyword is not None and original_node.keyword.value == "monitor"
        if is_monitor and not self._has_own and isinstance(updated_node.value, cst.SimpleString):
            return updated_node.with_changes(value=_replaced(updated_node.value, _OLD))
        return updated_node

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.Subscript:
        if not _is_logs(original_node.value) or len(updated_node.slice) != 1:
            return updated_node
        index = updated_node.slice[0].slice
        if not isinstance(index, cst.Index) or not isinstance(index.value, cst.SimpleString):
            return updated_node
        names = ({} if self._writes_lr else {"lr": "learning_rate"}) | ({} if self._has_own else _OLD)
        new = index.with_changes(value=_replaced(index.value, names))
        return updated_node.with_changes(slice=[updated_node.slice[0].with_changes(slice=new)])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        func = original_node.func
        # logs.get('val_acc')
        is_get = isinstance(func, cst.Attribute) and func.attr.value == "get" and _is_logs(func.value)
        if not is_get or self._has_own or not updated_node.args:
            return updated_node
        first, *others = updated_node.args
        if not isinstance(first.value, cst.SimpleString):
            return updated_node
        return updated_node.with_changes(args=[first.with_changes(value=_replaced(first.value, _OLD)), *others])


def _defines_acc(module: cst.Module) -> bool:
    """Return whether the program has a metric of its own that is called acc."""
    functions = (function.name.value for function in found(module, cst.FunctionDef))
    given = (arg.value for arg in found(module, cst.Arg) if arg.keyword is not None and arg.keyword.value == "name")
    return "acc" in functions or any(isinstance(v, cst.SimpleString) and v.evaluated_value == "acc" for v in given)


def _metrics(calls: list[cst.Call]) -> Iterator[cst.BaseExpression]:
    """Yield what the program passes to `compile` as metrics."""
    for call in calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile":
            third = call.args[2] if len(call.args) > 2 and call.args[2].keyword is None else None
            yield from (arg.value for arg in (keyword(call, "metrics", "weighted_metrics"), third) if arg is not None)


def _path(checkpoint: cst.Call) -> list[cst.BaseExpression]:
    path = keyword(checkpoint, "filepath") or (checkpoint.args[0] if checkpoint.args else None)
    return [] if path is None else [path.value]


def _strings(nodes: Iterable[cst.CSTNode]) -> set[cst.SimpleString]:
    return {string for node in nodes for string in found(node, cst.SimpleString)}


def _is_logs(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value == "history"
    return isinstance(node, cst.Name) and node.value in _LOGS


def _replaced(string: cst.SimpleString, names: dict[str, str]) -> cst.SimpleString:
    new = names.get(str(string.evaluated_value))
    return string.with_changes(value=f"{string.prefix}{string.quote}{new}{string.quote}") if new else string
