"""TensorFlow's set-up of devices and sessions, which the ranks' start-up has done: it goes, with what it imported."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import libcst as cst
from libcst.metadata import ImportAssignment, MetadataWrapper, ScopeProvider

from jupyter_ddl.modernise.names import Codemod, code_of, found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAKES = {
    *("tensorflow.ConfigProto", "tensorflow.GPUOptions", "tensorflow.Session", "tensorflow.InteractiveSession"),
    *("tensorflow.config.list_physical_devices", "tensorflow.config.experimental.list_physical_devices"),
}
_SETTERS = {
    "keras.backend.set_session",
    "keras.backend.tensorflow_backend.set_session",
    "tensorflow.enable_eager_execution",
    "tensorflow.config.experimental.set_memory_growth",
}
_VISIBLE = {"tensorflow.config.set_visible_devices", "tensorflow.config.experimental.set_visible_devices"}


class Sessions(Codemod):
    """Removes statements that set up devices and sessions, and nothing else that uses their names."""

    def visit_Module(self, node: cst.Module) -> None:
        self._removable = self._set_up_names(node)
        self._unused_before = _unused_imports(node)

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        changed = updated_node.with_changes(body=self._left(original_node.body, updated_node.body))
        if changed.code == original_node.code:
            return original_node
        return _without_imports(changed, _unused_imports(changed) - self._unused_before)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(body=self._left(original_node.body, updated_node.body))

    def _left(self, original: Sequence[cst.CSTNode], updated: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
        """Return the statements that stay. The comment just above one that goes, goes too."""
        left: list[cst.CSTNode] = []
        above: list[cst.EmptyLine] = []
        for before, statement in zip(original, updated, strict=True):
            lines = list(getattr(statement, "leading_lines", ()))
            if self._is_set_up(before):
                above += _before_last_blank(lines)
            else:
                if above:
                    statement = statement.with_changes(leading_lines=_joined(above, lines))
                    above = []
                left.append(statement)
        return left

    def _is_set_up(self, statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.SimpleStatementLine):
            return all(self._is_small_set_up(small) for small in statement.body)
        if isinstance(statement, cst.For) and statement.orelse is None:
            return self._is_all_set_up(statement.body)
        if isinstance(statement, cst.If) and statement.orelse is None:
            # `if gpus:` alone: another condition may matter.
            return isinstance(statement.test, cst.Name) and self._is_all_set_up(statement.body)
        return False

    def _is_all_set_up(self, block: cst.BaseSuite) -> bool:
        return isinstance(block, cst.IndentedBlock) and all(self._is_set_up(inner) for inner in block.body)

    def _is_small_set_up(self, small: cst.BaseSmallStatement) -> bool:
        if isinstance(small, cst.Expr):
            return isinstance(small.value, cst.Call) and self._is_setter(small.value)
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return False
        target: cst.CSTNode = small.targets[0].target
        while isinstance(target, cst.Attribute):
            target = target.value
        return isinstance(target, cst.Name) and target.value in self._removable

    def _is_setter(self, call: cst.Call) -> bool:
        """Return whether a call sets up what the ranks' start-up has set up."""
        meaning = self.meaning(call.func)
        # The one GPU of this rank; a CPU hidden on purpose is another thing.
        chooses = meaning in _VISIBLE and "local_rank" in code_of(call)
        return meaning in _SETTERS or chooses

    def _set_up_names(self, module: cst.Module) -> set[str]:
        """Return the names of configurations, sessions and lists of GPUs that nothing but the set-up itself uses."""
        made: set[str] = set()
        parts: list[cst.CSTNode] = []
        for node in found(module, cst.Assign):
            target = node.targets[0].target
            made_by = self.meaning(node.value.func) if isinstance(node.value, cst.Call) else ""
            if isinstance(target, cst.Name) and made_by in _MAKES:
                made.add(target.value)
                parts.append(node)
            elif isinstance(target, cst.Attribute):
                parts.append(node)
        calls = ((each, each.value) for each in found(module, cst.Expr))
        parts += [each for each, call in calls if isinstance(call, cst.Call) and self._is_setter(call)]
        parts += [part for loop in found(module, cst.For) for part in (loop.target, loop.iter)]
        parts += [condition.test for condition in found(module, cst.If)]
        uses = Counter(name.value for name in found(module, cst.Name))
        uses_in_set_up = Counter(name.value for part in parts for name in found(part, cst.Name))
        return {name for name in made if uses[name] == uses_in_set_up[name]}


def _before_last_blank(lines: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return the lines above a statement up to its last blank one: what is below that is the statement's comment."""
    blank = [place for place, line in enumerate(lines) if line.comment is None]
    return lines[: blank[-1] + 1] if blank else []


def _joined(above: list[cst.EmptyLine], lines: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return the lines that stood above removed statements and those above the next, without doubled blank lines."""
    while above and above[-1].comment is None and lines and lines[0].comment is None:
        above = above[:-1]
    return [*above, *lines]


def _unused_imports(module: cst.Module) -> set[tuple[str, str]]:
    """Return the imports that nothing refers to: the statement, and the name."""
    wrapper = MetadataWrapper(module)
    scopes = {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}
    return {
        (code_of(assignment.node), assignment.name)
        for scope in scopes
        for assignment in scope.assignments
        if isinstance(assignment, ImportAssignment) and not assignment.references
    }


def _without_imports(module: cst.Module, unused: Iterable[tuple[str, str]]) -> cst.Module:
    return module.visit(_ImportRemover(set(unused))) if unused else module


_Import = TypeVar("_Import", cst.Import, cst.ImportFrom)


class _ImportRemover(cst.CSTTransformer):
    def __init__(self, unused: set[tuple[str, str]]) -> None:
        self._unused = unused

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import | cst.RemovalSentinel:
        return self._left(original_node, updated_node)

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        return self._left(original_node, updated_node)

    def _left(self, original: _Import, updated: _Import) -> _Import | cst.RemovalSentinel:
        if isinstance(original.names, cst.ImportStar) or isinstance(updated.names, cst.ImportStar):
            return updated
        code = code_of(original)
        kept: list[cst.ImportAlias] = [
            new
            for old, new in zip(original.names, updated.names, strict=True)
            if (code, old.evaluated_alias or old.evaluated_name) not in self._unused
        ]
        if not kept:
            return cst.RemoveFromParent()
        if len(kept) == len(original.names):
            return updated
        return updated.with_changes(names=[*kept[:-1], kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
