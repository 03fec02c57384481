"""`K.get_value(v)` is `v.numpy()`, and `K.set_value(v, x)` is `v.assign(x)`."""

from __future__ import annotations

import libcst as cst

from jupyter_ddl.modernise.names import Codemod

_METHODS = {"keras.backend.get_value": ("numpy", 1), "keras.backend.set_value": ("assign", 2)}


class Backend(Codemod):
    """Functions of keras.backend that are methods of variables now."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        method, count = _METHODS.get(self.meaning(original_node.func), ("", 0))
        args = updated_node.args
        if not method or len(args) != count or any(arg.keyword is not None or arg.star for arg in args):
            return updated_node
        variable = args[0].value
        if not isinstance(variable, cst.Name | cst.Attribute | cst.Subscript):
            return updated_node
        return updated_node.with_changes(func=cst.Attribute(variable, cst.Name(method)), args=args[1:])
