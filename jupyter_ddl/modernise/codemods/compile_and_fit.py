"""`model.compile`, `fit`, `fit_generator` and their kin: the arguments that went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.modernise.names import Codemod, argument, keyword, renamed, replaced, without

if TYPE_CHECKING:
    from collections.abc import Iterable

_GENERATORS = {"fit_generator": "fit", "evaluate_generator": "evaluate", "predict_generator": "predict"}
_COMPILE_DROPPED = ("experimental_run_tf_function", "cloning", "distribute")
_COMPILE_NONE = ("sample_weight_mode", "target_tensors")
# How data is loaded: by fit itself in Keras 2, by the Sequence in Keras 3. What is computed does not depend on it.
_LOADING = ("workers", "use_multiprocessing", "max_queue_size", "max_q_size", "pickle_safe")
_RENAMED = {"nb_epoch": "epochs"}


class CompileAndFit(Codemod):
    """Methods of models, known by their names: a model's class cannot be known without running the program."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        func = updated_node.func
        if not isinstance(func, cst.Attribute):
            return updated_node
        method = func.attr.value
        if method in _GENERATORS:
            return _of_data(_from_generator(updated_node, func, _GENERATORS[method]))
        if method in ("fit", "evaluate", "predict"):
            return _of_data(updated_node)
        if method == "compile" and self.meaning(original_node.func) != "re.compile":
            return _compile(updated_node)
        return updated_node


def _from_generator(call: cst.Call, func: cst.Attribute, method: str) -> cst.Call:
    if keyword(call, "samples_per_epoch", "nb_val_samples", "val_samples") is not None:
        return call  # Keras 1 counted samples: what number of batches that is, only its data can tell
    args = call.args
    if generator := keyword(call, "generator"):
        args = replaced(args, generator, renamed(generator, "x"))
    if method == "fit":
        args = _named(args, ("", "steps_per_epoch", "epochs", "verbose", "callbacks", "validation_data"))
    else:
        args = _named(args, ("", "steps"))
    return call.with_changes(func=func.with_changes(attr=cst.Name(method)), args=args)


def _named(args: Iterable[cst.Arg], names: tuple[str, ...]) -> list[cst.Arg]:
    """Return positional arguments by their names, whose order was another one; the first is the data."""
    result = []
    for place, arg in enumerate(args):
        is_bare = arg.keyword is None and not arg.star
        if is_bare and 0 < place < len(names):
            named = argument(names[place], arg.value)
            arg = named.with_changes(comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg)
        result.append(arg)
    return result


def _of_data(call: cst.Call) -> cst.Call:
    args = without(call.args, *_LOADING)
    for old, new in _RENAMED.items():
        if arg := keyword(call, old):
            args = replaced(args, arg, renamed(arg, new))
    return call if len(args) == len(call.args) and args == list(call.args) else call.with_changes(args=args)


def _compile(call: cst.Call) -> cst.Call:
    none = [name for name in _COMPILE_NONE if (arg := keyword(call, name)) and _is_none(arg.value)]
    args = without(call.args, *_COMPILE_DROPPED, *none)
    changed = call.with_changes(args=args)
    if old := keyword(changed, "experimental_steps_per_execution"):
        changed = changed.with_changes(args=replaced(changed.args, old, renamed(old, "steps_per_execution")))
    metrics = keyword(changed, "metrics")
    if metrics is not None and isinstance(metrics.value, cst.SimpleString):
        listed = metrics.with_changes(value=cst.List([cst.Element(metrics.value)]))
        changed = changed.with_changes(args=replaced(changed.args, metrics, listed))
    return _with_named_metrics(changed)


def _with_named_metrics(call: cst.Call) -> cst.Call:
    """Return `compile(optimizer, loss, ['accuracy'])` with the metrics by their name: third is loss_weights now."""
    if len(call.args) < 3 or any(arg.keyword is not None or arg.star for arg in call.args[:3]):
        return call
    third = call.args[2]
    if not isinstance(third.value, cst.List) or not third.value.elements:
        return call
    if not all(isinstance(element.value, cst.SimpleString) for element in third.value.elements):
        return call
    named = argument("metrics", third.value).with_changes(
        comma=third.comma, whitespace_after_arg=third.whitespace_after_arg
    )
    return call.with_changes(args=replaced(call.args, third, named))


def _is_none(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value == "None"
