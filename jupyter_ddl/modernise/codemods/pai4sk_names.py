"""pai4sk, the Snap ML of WML CE, as snapml and scikit-learn.

`from pai4sk import RandomForestClassifier` is `from snapml import RandomForestClassifier`, and
`from pai4sk.cluster import KMeans` is `from sklearn.cluster import KMeans`.
"""

from __future__ import annotations

import re

import libcst as cst
from libcst.helpers import get_full_name_for_node

from jupyter_ddl.modernise.names import Codemod, renamed, without
from jupyter_ddl.protocol.sklearn_names import PAI4SK_ARGUMENTS, PAI4SK_CLASSES

_OWN = re.compile(r"pai4sk\.(\w+)")
# Its tree below is scikit-learn's, some of it computed on GPUs.
_TREE = re.compile(r"pai4sk\.(\w+(?:\.\w+)*)")
_CLASS_OF_TREE = re.compile(r"pai4sk\.[a-z]\w*\.[\w.]+")


class Pai4skNames(Codemod):
    """Imports of pai4sk, and calls of what they give."""

    def visit_Module(self, node: cst.Module) -> None:
        # `import pai4sk` is rewritten only where nothing but these classes is asked of it.
        asked = re.findall(r"\bpai4sk\.(\w+)", node.code)
        self._asks_classes_alone = bool(asked) and set(asked) <= set(PAI4SK_CLASSES)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        module = (original_node.module and get_full_name_for_node(original_node.module)) or ""
        if isinstance(original_node.names, cst.ImportStar):
            return updated_node
        if module == "pai4sk" and {alias.evaluated_name for alias in original_node.names} <= set(PAI4SK_CLASSES):
            return updated_node.with_changes(module=cst.Name("snapml"))
        if (tree := _TREE.fullmatch(module)) is not None:
            return updated_node.with_changes(module=cst.parse_expression(f"sklearn.{tree[1]}"))
        return updated_node

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        is_whole = get_full_name_for_node(original_node.name) == "pai4sk" and original_node.asname is None
        return (
            updated_node.with_changes(name=cst.Name("snapml"))
            if is_whole and self._asks_classes_alone
            else updated_node
        )

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        is_of_it = isinstance(original_node.value, cst.Name) and original_node.value.value == "pai4sk"
        if is_of_it and self._asks_classes_alone and _OWN.fullmatch(self.meaning(original_node)):
            return updated_node.with_changes(value=cst.Name("snapml"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        meaning = self.meaning(original_node.func)
        own = _OWN.fullmatch(meaning)
        if own is not None and own[1] in PAI4SK_CLASSES:
            return updated_node.with_changes(args=[_of_today(arg) for arg in updated_node.args])
        if _CLASS_OF_TREE.fullmatch(meaning):
            return updated_node.with_changes(args=without(updated_node.args, "use_gpu"))
        return updated_node


def _of_today(arg: cst.Arg) -> cst.Arg:
    name = arg.keyword and PAI4SK_ARGUMENTS.get(arg.keyword.value)
    return renamed(arg, name) if name else arg
