"""H2O4GPU's names, and daal4py's patch of scikit-learn, as scikit-learn's own and scikit-learn-intelex's.

`from h2o4gpu.solvers import KMeans` is `from sklearn.cluster import KMeans`, `import h2o4gpu as sklearn` is
`import sklearn`, and `daal4py.sklearn.patch_sklearn()` is `sklearnex.patch_sklearn()`.
"""

from __future__ import annotations

import re

import libcst as cst
from libcst.helpers import get_full_name_for_node

from jupyter_ddl.modernise.names import Codemod, without
from jupyter_ddl.protocol.sklearn_names import H2O4GPU_ARGUMENTS, H2O4GPU_CLASSES

_SOLVERS = re.compile(r"h2o4gpu(?:\.solvers(?:\.\w+)?)?")
_CLASS = re.compile(rf"{_SOLVERS.pattern}\.(\w+)")
_TREE = re.compile(r"h2o4gpu\.((?!solvers\b|util\b|types\b|libs\b)\w+(?:\.\w+)*)")
_DAAL = "daal4py.sklearn"


class SklearnNames(Codemod):
    """Imports of H2O4GPU and daal4py, and calls of what they give."""

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Import each of H2O4GPU's classes from the module of scikit-learn that has it, one line a module."""
        statement = original_node.body[0]
        if len(original_node.body) > 1 or not isinstance(statement, cst.ImportFrom):
            return updated_node
        module = (statement.module and get_full_name_for_node(statement.module)) or ""
        if _SOLVERS.fullmatch(module) is None or isinstance(statement.names, cst.ImportStar):
            return updated_node
        aliases: dict[str, list[cst.ImportAlias]] = {}
        for alias in statement.names:
            if (target := H2O4GPU_CLASSES.get(alias.evaluated_name)) is None:
                return updated_node
            aliases.setdefault(target, []).append(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        lines = [
            updated_node.with_changes(
                body=[cst.ImportFrom(cst.parse_expression(f"sklearn.{target}"), names)],  # type: ignore[arg-type]
                leading_lines=updated_node.leading_lines if number == 0 else [],
            )
            for number, (target, names) in enumerate(aliases.items())
        ]
        return cst.FlattenSentinel(lines)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        module = (original_node.module and get_full_name_for_node(original_node.module)) or ""
        if module == _DAAL and _names(original_node) <= {"patch_sklearn", "unpatch_sklearn"}:
            return updated_node.with_changes(module=cst.Name("sklearnex"))
        # The rest of its tree is scikit-learn's: h2o4gpu.metrics, h2o4gpu.model_selection.
        tree = _TREE.fullmatch(module)
        return (
            updated_node
            if tree is None
            else updated_node.with_changes(module=cst.parse_expression(f"sklearn.{tree[1]}"))
        )

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        name = get_full_name_for_node(original_node.name)
        bound = original_node.evaluated_alias
        if name == "h2o4gpu" and bound == "sklearn":
            return updated_node.with_changes(name=cst.Name("sklearn"), asname=None)
        if name == _DAAL and bound is None and self._asks_daal_to_patch:
            return updated_node.with_changes(name=cst.Name("sklearnex"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        meaning = self.meaning(original_node.func)
        if meaning in (f"{_DAAL}.patch_sklearn", f"{_DAAL}.unpatch_sklearn") and self._asks_daal_to_patch:
            if isinstance(updated_node.func, cst.Attribute):
                return updated_node.with_changes(func=cst.parse_expression(f"sklearnex.{meaning.rpartition('.')[2]}"))
            return updated_node
        match = _CLASS.fullmatch(meaning)
        if match is None or match[1] not in H2O4GPU_CLASSES:
            return updated_node
        return updated_node.with_changes(args=without(updated_node.args, *H2O4GPU_ARGUMENTS))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        """`sklearn.KMeans` of `import h2o4gpu as sklearn` is `sklearn.cluster.KMeans`."""
        match = _CLASS.fullmatch(self.meaning(original_node))
        of = original_node.value
        if match is None or match[1] not in H2O4GPU_CLASSES or not isinstance(of, cst.Name) or of.value != "sklearn":
            return updated_node
        return cst.Attribute(
            cst.Attribute(cst.Name("sklearn"), cst.Name(H2O4GPU_CLASSES[match[1]])), cst.Name(match[1])
        )

    def visit_Module(self, node: cst.Module) -> None:
        # `import daal4py.sklearn` is rewritten only where nothing else is asked of daal4py.
        code = node.code
        self._asks_daal_to_patch = re.findall(r"daal4py(?!\.sklearn\b)", code) == []


def _names(node: cst.ImportFrom) -> set[str]:
    return set() if isinstance(node.names, cst.ImportStar) else {alias.evaluated_name for alias in node.names}
