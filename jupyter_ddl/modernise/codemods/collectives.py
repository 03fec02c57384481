"""`hvd.allreduce(x, average=True)` is `hvd.allreduce(x, op=hvd.Average)`."""

from __future__ import annotations

import libcst as cst

from jupyter_ddl.modernise.names import Codemod, argument, keyword, replaced


class Collectives(Codemod):
    """Horovod's own functions."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        old = keyword(updated_node, "average")
        func = original_node.func
        known = self.meaning(func) in ("hvd.allreduce", "hvd.grouped_allreduce")
        # Imported by its own name, there is no `hvd` to take the operation from.
        if old is None or not known or not isinstance(func, cst.Attribute):
            return updated_node
        average, total = (cst.Attribute(func.value, cst.Name(name)) for name in ("Average", "Sum"))
        value: cst.BaseExpression = cst.IfExp(test=old.value, body=average, orelse=total)
        if isinstance(old.value, cst.Name) and old.value.value in ("True", "False", "None"):
            value = total if old.value.value == "False" else average
        new = argument("op", value).with_changes(comma=old.comma, whitespace_after_arg=old.whitespace_after_arg)
        return updated_node.with_changes(args=replaced(updated_node.args, old, new))
