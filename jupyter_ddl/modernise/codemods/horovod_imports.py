"""`import horovod.tensorflow.keras as hvd` is `import jupyter_ddl.keras as hvd`.

`horovod.tensorflow`, which custom loops use, stays what it is.
"""

from __future__ import annotations

import libcst as cst
from libcst.helpers import get_full_name_for_node

from jupyter_ddl.modernise.names import Codemod

_MODULES = {
    "horovod.keras": "jupyter_ddl.keras",
    "horovod.tensorflow.keras": "jupyter_ddl.keras",
    "horovod.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.tensorflow.keras.callbacks": "jupyter_ddl.training.callbacks",
    "horovod.keras.elastic": "jupyter_ddl.training.elastic",
    "horovod.tensorflow.keras.elastic": "jupyter_ddl.training.elastic",
}
_PARENTS = {"horovod", "horovod.tensorflow"}


class HorovodImports(Codemod):
    """Imports of Horovod's Keras layer."""

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        target = _MODULES.get(get_full_name_for_node(original_node.name) or "")
        # Without `as` the program says horovod.keras wherever it uses it.
        if target is None or original_node.asname is None:
            return updated_node
        return updated_node.with_changes(name=cst.parse_expression(target))

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        module = original_node.module and get_full_name_for_node(original_node.module)
        target = _MODULES.get(module or "")
        names = original_node.names
        if (
            module in _PARENTS
            and not isinstance(names, cst.ImportStar)
            and [n.evaluated_name for n in names] == ["keras"]
        ):
            target = "jupyter_ddl"
        return updated_node.with_changes(module=cst.parse_expression(target)) if target else updated_node
