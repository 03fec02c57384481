"""`acc` is `accuracy`: in metrics, monitors, histories and checkpoints' file names; and `lr` in histories."""

from __future__ import annotations

import re

import libcst as cst

from jupyter_ddl.modernise.names import Codemod, keyword

_OLD = {"acc": "accuracy", "val_acc": "val_accuracy"}
_IN_FILE_NAME = re.compile(r"\{(val_)?acc(?=[:!}])")
_LOGS = {"logs", "history", "hist"}


class Logs(Codemod):
    """Names of metrics, as strings."""

    def visit_Module(self, node: cst.Module) -> None:
        finder = _Finder(self)
        node.visit(finder)
        self._metrics = finder.metrics
        self._file_names = finder.file_names
        # A metric of the program's own that is called acc is logged as acc today too, and what it logs itself as well.
        self._has_own = finder.defines_acc or not finder.written.isdisjoint(_OLD)
        self._writes_lr = "lr" in finder.written

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


class _Finder(cst.CSTVisitor):
    """Finds the strings that name metrics, and those that name checkpoints' files."""

    def __init__(self, codemod: Codemod) -> None:
        self._codemod = codemod
        self.metrics: set[cst.SimpleString] = set()
        self.file_names: set[cst.SimpleString] = set()
        self.defines_acc = False
        self.written: set[str] = set()
        self._assigned: dict[str, list[cst.BaseExpression]] = {}
        self._named: set[str] = set()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.defines_acc |= node.name.value == "acc"

    def visit_Arg(self, node: cst.Arg) -> None:
        is_name = node.keyword is not None and node.keyword.value == "name"
        if is_name and isinstance(node.value, cst.SimpleString):
            self.defines_acc |= node.value.evaluated_value == "acc"

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if isinstance(target.target, cst.Subscript) and _is_logs(target.target.value):
                self.written |= {str(string.evaluated_value) for string in _strings(target.target)}
            if isinstance(target.target, cst.Name):
                self._assigned.setdefault(target.target.value, []).append(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile":
            third = node.args[2] if len(node.args) > 2 and node.args[2].keyword is None else None
            for arg in (keyword(node, "metrics", "weighted_metrics"), third):
                if arg is not None:
                    self.metrics |= _strings(arg.value)
        if self._codemod.meaning(node.func) in (
            "keras.callbacks.ModelCheckpoint",
            "hvd.callbacks.BestModelCheckpoint",
        ):
            path = keyword(node, "filepath") or (node.args[0] if node.args else None)
            if path is not None:
                self.file_names |= _strings(path.value)
                self._named |= {name.value for name in _names(path.value)}

    def leave_Module(self, _node: cst.Module) -> None:
        # A file name that was given a name first.
        for name in self._named:
            for value in self._assigned.get(name, []):
                self.file_names |= _strings(value)


class _Collector(cst.CSTVisitor):
    def __init__(self) -> None:
        self.strings: set[cst.SimpleString] = set()
        self.names: set[cst.Name] = set()

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        self.strings.add(node)

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node)


def _strings(node: cst.CSTNode) -> set[cst.SimpleString]:
    collector = _Collector()
    node.visit(collector)
    return collector.strings


def _names(node: cst.CSTNode) -> set[cst.Name]:
    collector = _Collector()
    node.visit(collector)
    return collector.names


def _is_logs(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value == "history"
    return isinstance(node, cst.Name) and node.value in _LOGS


def _replaced(string: cst.SimpleString, names: dict[str, str]) -> cst.SimpleString:
    new = names.get(str(string.evaluated_value))
    return string.with_changes(value=f"{string.prefix}{string.quote}{new}{string.quote}") if new else string
