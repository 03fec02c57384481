"""Writes the program out in explicit Horovod."""

# ruff: noqa: D102, N802 (libcst's hooks)

from __future__ import annotations

from typing import Any

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.calls import MethodCall, by_name
from jupyter_ddl.explain.fitting import LINE_LENGTH, Fit, verbose_on_rank_0
from jupyter_ddl.explain.models import LOADS
from jupyter_ddl.explain.reading import OptimizerCall
from jupyter_ddl.explain.settings import Settings, times
from jupyter_ddl.modernise.names import OPTIMIZERS, added, argument, code_of, keyword, replaced
from jupyter_ddl.protocol.cell_options import LINEAR, NONE

_DISTRIBUTED = "# Average the gradients over the ranks before each update."
_RATES = {
    LINEAR: "# N ranks see N times the samples in a step: N times the learning rate (Goyal et al. 2017).",
    "sqrt": "# N ranks see N times the samples in a step: sqrt(N) times the learning rate (Krizhevsky 2014).",
}
_EVALUATED = "# Each rank evaluates its part; the result is that of all."
_LOADED = "# The optimizer that was saved averages the gradients again."
_SAVED = "# One rank writes the file."
_WAIT = "hvd.barrier()  # it is there before any rank continues"
_SAVES = ("save", "save_weights", "export")
_RANK_0 = "hvd.rank() == 0"


class Writing(cst.CSTTransformer):
    """Rewrites the tree that `settings.reading` has visited."""

    def __init__(self, settings: Settings) -> None:
        reading = settings.reading
        super().__init__()
        self._reading = reading
        self._settings = settings
        self._calls: dict[int, MethodCall | OptimizerCall] = {id(call.node): call for call in reading.optimizers}
        self._calls |= {id(call.node): call for calls in reading.methods.values() for call in calls}
        self._models = {code_of(call.receiver) for call in (*reading.compiles, *reading.fits)}
        self._notes: list[str] = []
        self._before: list[str] = []
        self._statement: cst.SimpleStatementLine | None = None
        self.snippets: set[str] = set()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._notes, self._before, self._statement = [], [], node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        statement: Any = updated_node.with_changes(leading_lines=[])
        after: list[Any] = []
        saved = self._saves(original_node)
        if saved or self._adds_writer(original_node):
            statement = cst.If(cst.parse_expression(_RANK_0), cst.IndentedBlock([statement]))
        if saved:
            self._notes.append(_SAVED)
            after = [cst.parse_statement(_WAIT)] if saved in self._models else []
        comments = [cst.EmptyLine(comment=cst.Comment(note)) for note in dict.fromkeys(self._notes)]
        statement = statement.with_changes(leading_lines=comments)
        every: list[Any] = [*map(cst.parse_statement, self._before), statement, *after]
        first, *others = every
        first = first.with_changes(leading_lines=[*updated_node.leading_lines, *first.leading_lines])
        self._notes, self._before, self._statement = [], [], None
        return cst.FlattenSentinel([first, *others])

    def leave_Element(self, original_node: cst.Element, updated_node: cst.Element) -> cst.BaseElement:
        if not self._reading.is_rank_0_callback(original_node.value):
            return updated_node
        chosen = cst.parse_expression(f"([{code_of(updated_node.value)}] if {_RANK_0} else [])")
        return cst.StarredElement(chosen, comma=updated_node.comma)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        call = self._calls.get(id(original_node))
        if isinstance(call, OptimizerCall):
            return self._optimizer(call, updated_node)
        if call is None:
            return self._other(original_node, updated_node)
        if call.method == "compile":
            return self._compile(call, updated_node)
        given = by_name(updated_node, call.method)
        assert given is not None
        if call.method == "predict":
            return self._predict(updated_node, given)
        if call.method == "evaluate":
            return self._evaluate(call, updated_node)
        return self._fit(call, given)

    def _other(self, original: cst.Call, node: cst.Call) -> cst.Call:
        """Return a call of something else; a model that is loaded is distributed as one that is compiled."""
        if self._reading.meaning(original.func) not in LOADS or keyword(node, "compile") is not None:
            return node
        self._notes.append(_LOADED)
        args = list(node.args)
        if len(args) > 1 and args[1].keyword is None:
            # Horovod's own function has another argument in this place.
            args[1] = argument("custom_objects", args[1].value).with_changes(comma=args[1].comma)
        return node.with_changes(func=cst.parse_expression("hvd.load_model"), args=args)

    def _fit(self, call: MethodCall, given: dict[str, cst.Arg]) -> cst.BaseExpression:
        fit = Fit(self._settings, call, given)
        written = fit.written()
        if fit.before and self._statement is None:
            raise InvalidInput(
                "fit with validation_split must be in a statement of its own.", call.place, "Give it a line."
            )
        self._before += fit.before
        self.snippets |= fit.snippets
        return cst.parse_expression(written)

    def _evaluate(self, call: MethodCall, node: cst.Call) -> cst.Call:
        if code_of(call.receiver) in ("self", "self.model"):
            return node  # a callback's: each rank evaluates the whole
        self._notes.append(_EVALUATED)
        self.snippets.add("EVALUATE")
        bare = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        model = cst.Arg(call.receiver, comma=bare)
        return node.with_changes(func=cst.Name("evaluate_together"), args=[model, *node.args])

    def _predict(self, node: cst.Call, given: dict[str, cst.Arg]) -> cst.Call:
        old = given.get("verbose")
        value = cst.parse_expression(verbose_on_rank_0(None if old is None else code_of(old.value)))
        return _with_argument(node, old, "verbose", value)

    def _compile(self, call: MethodCall, node: cst.Call) -> cst.Call:
        settings = self._settings
        name = settings.optimizer_of(call)
        given = (by_name(node, "compile") or {}).get("optimizer")
        made = given.value if given is not None else None
        if made is None or settings.text_of(call.value("optimizer")) is not None:
            rate = self._scaled(OPTIMIZERS[name], name)
            made = cst.parse_expression(f"keras.optimizers.{name}(learning_rate={rate})")
        self._notes.append(_DISTRIBUTED)
        wrapped = cst.parse_expression(f"hvd.DistributedOptimizer({code_of(made)})")
        return _in_lines(_with_argument(node, given, "optimizer", wrapped))

    def _optimizer(self, call: OptimizerCall, node: cst.Call) -> cst.Call:
        settings = self._settings
        if call.rate is None:
            if settings.scaling(call.name) == NONE:
                return node
            rate = cst.parse_expression(self._scaled(OPTIMIZERS[call.name], call.name))
            return _with_argument(node, None, "learning_rate", rate)
        place = next(i for i, arg in enumerate(call.node.args) if arg is call.rate)
        given = node.args[place]
        if settings.schedule_of(call.rate.value):
            if settings.shares_batches:
                return node
            self.snippets.add("SCHEDULE")
            if settings.scales:
                self._notes.append(_RATES[settings.scaling(call.name)])
            text = f"ScheduleOfAllRanks({code_of(given.value)})"
        else:
            text = self._scaled(code_of(given.value), call.name)
        return _with_argument(node, given, "learning_rate", cst.parse_expression(text))

    def _scaled(self, rate: str, optimizer: str) -> str:
        how = self._settings.scaling(optimizer)
        if how == NONE or self._settings.warms_up_by_itself:
            return rate
        self._notes.append(_RATES[how])
        return times(rate, "*", self._settings.factor(how))

    def _saves(self, statement: cst.SimpleStatementLine) -> str:
        """Return which model a statement writes to a file; empty for none."""
        call = _method_call(statement)
        if call is None or call.func.attr.value not in _SAVES:
            return ""
        receiver = code_of(call.func.value)
        return receiver if receiver in self._models or receiver == "self.model" else ""

    def _adds_writer(self, statement: cst.SimpleStatementLine) -> bool:
        """Return whether a statement adds a callback that writes files to a list."""
        call = _method_call(statement)
        if call is None or call.func.attr.value != "append" or len(call.args) != 1:
            return False
        return self._reading.is_rank_0_callback(call.args[0].value)


def _with_argument(call: cst.Call, old: cst.Arg | None, name: str, value: cst.BaseExpression) -> cst.Call:
    """Return a call with another value for an argument, or with one more."""
    args = added(call.args, argument(name, value)) if old is None else call.args
    return call.with_changes(args=replaced(args, old, old.with_changes(value=value)) if old is not None else args)


def _method_call(statement: cst.SimpleStatementLine) -> Any:
    """Return the call of a method that a statement is; None for others."""
    first = statement.body[0]
    call = first.value if isinstance(first, cst.Expr) else None
    return call if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None


def _in_lines(call: cst.Call) -> cst.Call:
    """Return a call that has become too long for a line with each argument in one of its own."""
    text = code_of(call)
    if "\n" in text or len(text) <= LINE_LENGTH:
        return call
    args = "".join(f"    {code_of(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip()},\n" for arg in call.args)
    made = cst.parse_expression(f"{code_of(call.func)}(\n{args})")
    assert isinstance(made, cst.Call)
    return made
