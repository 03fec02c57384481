"""Optimizers: `lr=`, `decay=`, whole numbers, old classes, `optimizer.lr` and `optimizer.variables()`."""

from __future__ import annotations

import re

import libcst as cst

from jupyter_ddl.modernise.names import (
    OPTIMIZERS,
    Codemod,
    argument,
    code_of,
    keyword,
    optimizer_class,
    rate_argument,
    renamed,
    replaced,
    without,
)

_RATE = "learning_rate"
_FLOATS = (_RATE, "momentum", "beta_1", "beta_2", "rho", "epsilon", "weight_decay", "clipnorm", "clipvalue")
# Keras 2.11 to 2.15: how to run, not what to compute.
_DROPPED = ("jit_compile", "is_legacy_optimizer")
# What sets the rate while the program trains, which a schedule does not allow.
_SETS_RATE = re.compile(
    r"\b(LearningRateScheduler|ReduceLROnPlateau|LearningRateScheduleCallback|LearningRateWarmupCallback)\b"
    r"|\.(lr|learning_rate)\s*=[^=]|set_value\([^)]*\.(lr|learning_rate)\b|\.(lr|learning_rate)\.assign"
)


class Optimizers(Codemod):
    """Calls of optimizers' classes, and what programs ask of optimizers."""

    def visit_Module(self, node: cst.Module) -> None:
        self._sets_rate = bool(_SETS_RATE.search(node.code))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = original_node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "variables" and not original_node.args:
            return updated_node.func if self.is_optimizer(func.value) else updated_node
        meaning = self.meaning(func)
        name = optimizer_class(meaning)
        if name is None:
            return updated_node
        args = [renamed(arg, _RATE) if arg is keyword(updated_node, "lr") else arg for arg in updated_node.args]
        args = without(args, *_DROPPED)
        call = updated_node.with_changes(args=args, func=_today(updated_node.func, meaning, name))
        call = _without_default(self._with_schedule(call, name))
        return call.with_changes(args=[self._as_float(arg, at=place) for place, arg in enumerate(call.args)])

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        if original_node.attr.value == "lr" and self.is_optimizer(original_node.value):
            return updated_node.with_changes(attr=cst.Name(_RATE))
        return updated_node

    def _with_schedule(self, call: cst.Call, name: str) -> cst.Call:
        """Return the call with `decay` as the schedule that computes the same, where nothing else sets the rate."""
        decay = keyword(call, "decay")
        if decay is None:
            return call
        if isinstance(decay.value, cst.Integer | cst.Float) and decay.value.evaluated_value == 0:
            return call.with_changes(args=without(call.args, "decay"))
        if self._sets_rate or not isinstance(call.func, cst.Attribute) or any(arg.star for arg in call.args):
            return call
        rate = rate_argument(call)
        value = rate.value if rate is not None else cst.Float(OPTIMIZERS[name])
        schedule = cst.Call(
            cst.Attribute(cst.Attribute(call.func.value, cst.Name("schedules")), cst.Name("InverseTimeDecay")),
            [
                cst.Arg(_float(value, always=True), comma=_COMMA),
                argument("decay_steps", cst.Integer("1")).with_changes(comma=_COMMA),
                argument("decay_rate", decay.value),
            ],
        )
        if rate is None:
            new = argument(_RATE, schedule).with_changes(
                comma=decay.comma, whitespace_after_arg=decay.whitespace_after_arg
            )
            return call.with_changes(args=replaced(call.args, decay, new))
        args = replaced(call.args, rate, rate.with_changes(value=schedule))
        return call.with_changes(args=without(args, "decay"))

    def _as_float(self, arg: cst.Arg, *, at: int) -> cst.Arg:
        name = arg.keyword.value if arg.keyword is not None else _RATE if at == 0 and not arg.star else ""
        return arg.with_changes(value=_float(arg.value)) if name in _FLOATS else arg


_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _today(func: cst.BaseExpression, meaning: str, name: str) -> cst.BaseExpression:
    """Return the class as it is named today: without `legacy`, `experimental` and lower case."""
    if not isinstance(func, cst.Attribute):
        return func
    base = func.value
    is_old = re.fullmatch(r"keras\.optimizers\.(?:legacy|experimental)\.\w+", meaning) is not None
    if is_old and isinstance(base, cst.Attribute) and base.attr.value in ("legacy", "experimental"):
        base = base.value
    return func.with_changes(value=base, attr=cst.Name(name))


def _without_default(call: cst.Call) -> cst.Call:
    epsilon = keyword(call, "epsilon")
    is_none = epsilon is not None and isinstance(epsilon.value, cst.Name) and epsilon.value.value == "None"
    return call.with_changes(args=without(call.args, "epsilon")) if is_none else call


def _float(value: cst.BaseExpression, *, always: bool = False) -> cst.BaseExpression:
    """Return a whole number as a float; with `always`, also what may be one."""
    if isinstance(value, cst.Integer):
        return cst.Float(f"{value.value}.0") if value.value.isdecimal() else value
    if _is_float(value):
        return value
    # 1 * hvd.size(): whole for certain. A name may be anything.
    whole = re.fullmatch(r"[\d\s*+()]*(?:\b\w+\.(?:local_)?size\(\)[\d\s*+()]*)+", code_of(value)) is not None
    return cst.Call(cst.Name("float"), [cst.Arg(value)]) if whole or always else value


def _is_float(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        is_quotient = isinstance(value.operator, cst.Divide)
        return is_quotient or _is_float(value.left) or _is_float(value.right)
    is_call = isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "float"
    return isinstance(value, cst.Float) or is_call
