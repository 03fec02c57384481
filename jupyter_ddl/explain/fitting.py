"""Writes a call of `fit`, `evaluate` or `predict` as a rank makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import comments
from jupyter_ddl.explain.data_kinds import Kind, kind_of
from jupyter_ddl.explain.settings import in_brackets, times
from jupyter_ddl.modernise.names import code_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.explain.calls import MethodCall
    from jupyter_ddl.explain.settings import Settings

LINE_LENGTH = 88
_KERAS_BATCH_SIZE = "32"
_PARTS = "jupyter_ddl.data.parts"
# Arguments that go into parts(...), and those that are rewritten.
_OF_ARRAYS = ("y", "sample_weight", "batch_size", "shuffle", "class_weight", "validation_split")
_WRITTEN_ANEW = ("x", "callbacks", "verbose", "validation_data", "validation_batch_size", "steps_per_epoch")
_OWN = {
    None: "# This rank's part of each batch.",
    Kind.DATASET: "# This rank's shard of the data.",
    Kind.PYDATASET: "# This rank's batches: of N ranks, each takes every N-th.",
    Kind.GENERATOR: "# This rank's batches: of N ranks, each takes every N-th.",
}


class Fit:
    """One call of `fit`.

    Args:
        settings: how the program is distributed.
        call: as the program has it.
        given: its arguments by name, with what has been rewritten inside them.

    Attributes:
        before: statements that must stand before it.
        snippets: names of what it uses of `snippets`.
    """

    def __init__(self, settings: Settings, call: MethodCall, given: Mapping[str, cst.Arg]) -> None:
        self._settings = settings
        self._call = call
        self._texts = {name: code_of(arg.value) for name, arg in given.items() if code_of(arg.value) != "None"}
        self._given = given
        self._kind = settings.kind(call)
        self.before: list[str] = []
        self.snippets: set[str] = set()

    def written(self) -> str:
        """Return the call as a rank makes it.

        Raises:
            InvalidInput: what the call is given cannot be written out.
        """
        anew = {*_WRITTEN_ANEW, *(_OF_ARRAYS if self._takes_parts else ())}
        lines = [comment for name, arg in self._given.items() if name in anew for comment in comments.comments_of(arg)]
        lines += [_OWN[None if self._takes_parts else self._kind], f"{self._data()},"]
        for name, arg in self._given.items():
            if name not in anew:
                lines += comments.with_comments(f"{name}={code_of(arg.value)},", arg)
        lines += self._steps() + self._validation() + self._callbacks()
        lines.append(f"verbose={verbose_on_rank_0(self._texts.get('verbose'))},")
        body = "\n".join(f"    {line}" for line in "\n".join(lines).split("\n"))
        return f"{code_of(self._call.node.func)}(\n{body}\n)"

    @property
    def _takes_parts(self) -> bool:
        return self._settings.shares_batches or self._kind is Kind.ARRAYS

    def _data(self) -> str:
        x = self._texts["x"]
        if self._kind is Kind.ARRAYS:
            return self._arrays()
        if self._settings.shares_batches:
            if "class_weight" in self._texts:
                remedy = "Have the data yield sample weights as their third part."
                raise InvalidInput("parts takes class_weight with arrays alone.", self._call.place, remedy)
            return f"{_PARTS}({x}, shuffle=False)"
        if self._kind is Kind.PYDATASET:
            self.snippets.add("EVERY_NTH")
            return f"EveryNth({x})"
        if self._kind is Kind.GENERATOR:
            return f"(batch for batch in itertools.islice({x}, hvd.rank(), None, hvd.size()))"
        return f"jupyter_ddl.data.shard({x})"

    def _arrays(self) -> str:
        texts = dict(self._texts)
        if "class_weight" in texts:
            self.snippets.add("CLASS_WEIGHTS")
            texts["sample_weight"] = f"weights_of({texts['y']}, {texts['class_weight']})"
        if self._splits:
            begins = f"int({self._number_of_rows()} * (1 - {texts['validation_split']}))"
            self.before = [
                f"# The last part of the data is for validation.\nvalidation_begins = {begins}",
            ]
        first = {name: self._part(text, ":validation_begins") for name, text in texts.items()}
        size = self._batch_size()
        shuffle = {"shuffle": texts["shuffle"]} if texts.get("shuffle", "True") != "True" else {}
        order = {"keeps_order": "True"} if self._settings.shares_batches and not shuffle else {}
        return _parts_call(first, {"batch_size": self._of_all(size)} | shuffle | order)

    def _is_nested(self, text: str) -> bool:
        """Return whether an argument is a dict of arrays, or a name for a list or dict of them."""
        given = next((arg.value for arg in self._call.arguments.values() if code_of(arg.value) == text), None)
        values = self._settings.reading.assigned(given) if isinstance(given, cst.Name) else []
        return isinstance(given, cst.Dict) or any(isinstance(value, (cst.List, cst.Dict)) for value, _ in values or [])

    def _number_of_rows(self) -> str:
        x = self._texts["x"]
        return f"len(keras.tree.flatten({x})[0])" if self._is_nested(x) else _rows(x)

    @property
    def _splits(self) -> bool:
        split = self._texts.get("validation_split", "0")
        return split not in ("0", "0.0") and "validation_data" not in self._texts

    def _part(self, text: str, which: str) -> str:
        """Return the rows of an array, or of each of several."""
        if not self._splits:
            return text
        if self._is_nested(text):
            return f"keras.tree.map_structure(lambda rows: rows[{which}], {text})"
        expression = cst.parse_expression(text)
        if isinstance(expression, (cst.List, cst.Tuple)):
            inner = ", ".join(self._part(code_of(element.value), which) for element in expression.elements)
            return f"[{inner}]"
        return f"{in_brackets(text)}[{which}]"

    def _batch_size(self) -> str:
        if "batch_size" in self._texts:
            return self._texts["batch_size"]
        steps = self._texts.get("steps_per_epoch")
        return _KERAS_BATCH_SIZE if steps is None else f"-(-{self._number_of_rows()} // {in_brackets(steps)})"

    def _of_all(self, size: str) -> str:
        return size if self._settings.shares_batches else times(size, "*", "hvd.size()")

    def _steps(self) -> list[str]:
        steps = self._texts.get("steps_per_epoch")
        if steps is None:
            return []
        if self._settings.shares_batches:
            return [f"steps_per_epoch={steps},"]
        return ["# The ranks make the steps of one process together.", f"steps_per_epoch={_share(steps)},"]

    def _validation(self) -> list[str]:
        batch = self._texts.get("validation_batch_size") or self._texts.get("batch_size", _KERAS_BATCH_SIZE)
        options = {"batch_size": times(batch, "*", "hvd.size()"), "shuffle": "False"}
        if self._splits:
            texts = {name: text for name, text in self._texts.items() if name in ("x", "y", "sample_weight")}
            last = {name: self._part(text, "validation_begins:") for name, text in texts.items()}
            return [f"validation_data={_parts_call(last, options)},"]
        given = self._call.value("validation_data")
        if given is None:
            return []
        text = self._texts["validation_data"]
        if "validation_steps" in self._texts:
            return ["# On every rank the whole.", f"validation_data={text},"]
        if isinstance(given, cst.Tuple):
            arrays = dict(zip(("x", "y", "sample_weight"), (code_of(e.value) for e in given.elements), strict=False))
            return [f"validation_data={_parts_call(arrays, options)},"]
        if kind_of(self._settings.reading, given) in (Kind.DATASET, Kind.PYDATASET):
            return [f"validation_data={_PARTS}({text}, shuffle=False),"]
        return ["# On every rank the whole.", f"validation_data={text},"]

    def _callbacks(self) -> list[str]:
        reading, settings = self._settings.reading, self._settings
        lines: list[str] = []
        if reading.normalises:
            self.snippets.add("MOVING_STATISTICS")
            lines += ["AverageMovingStatistics(),"]
        lines += [
            "# The metrics of all ranks, before other callbacks read them.",
            "hvd.callbacks.MetricAverageCallback(),",
        ]
        warmup = self._warmup() if settings.scales else []
        # What sets the rate at each step comes before, and what reads it at an epoch's end, after.
        lines += [*self._users(), *warmup] if settings.sets_rate_in_steps else [*warmup, *self._users()]
        start = "hvd.callbacks.BroadcastGlobalVariablesCallback(0)"
        if "BackupAndRestore" in reading.code:
            self.snippets.add("START_TOGETHER")
            start = "StartTogether(0)"
        lines += ["# All ranks begin with rank 0's weights.", f"{start},"]
        if reading.draws_in_layers:
            self.snippets.add("OWN_RANDOM_NUMBERS")
            lines += ["OwnRandomNumbers(),"]
        inner = "\n".join(f"    {line}" for line in "\n".join(lines).split("\n"))
        return ["callbacks=[", *inner.split("\n"), "],"]

    def _users(self) -> list[str]:
        """Return the lines of the program's own callbacks."""
        given = self._call.value("callbacks")
        if given is None:
            return []
        arg = self._given["callbacks"].value
        if isinstance(arg, (cst.List, cst.Tuple)):
            return comments.elements(arg)
        reading = self._settings.reading
        if reading.is_rank_0_callback(given):
            return [f"*([{code_of(arg)}] if hvd.rank() == 0 else []),"]
        values = reading.assigned(given) if isinstance(given, cst.Name) else None
        is_list = values is not None and all(isinstance(value, cst.List) and not part for value, part in values)
        return [f"*{code_of(arg)}," if is_list else f"*keras.tree.flatten({code_of(arg)} or []),"]

    def _warmup(self) -> list[str]:
        settings = self._settings
        epochs = settings.warmup_epochs(self._call)
        if settings.warms_up_by_itself:
            self.snippets.add("WARM_UP_SCHEDULE" if settings.has_schedule else "WARM_UP_RATE")
            factor = settings.factor(settings.how)
            return ["# A larger rate, from small steps at first.", f"WarmUp({factor}, {epochs}),"]
        if epochs == "0":
            return []
        rate = self._known_rate() or f"float({self._optimizer()}.learning_rate.numpy())"
        warmup = f"hvd.callbacks.LearningRateWarmupCallback(initial_lr={rate}, warmup_epochs={epochs})"
        comment = "# Small steps at first: from 1/N of the rate, at N ranks."
        if not settings.fits_again or isinstance(self._call.receiver, cst.Call):
            return [comment, f"{warmup},"]
        return [comment, f"*([{warmup}] if {self._optimizer()}.iterations.numpy() == 0 else []),"]

    def _optimizer(self) -> str:
        """Return the model's optimizer, as it is written.

        Raises:
            InvalidInput: the model has no name.
        """
        if isinstance(self._call.receiver, cst.Call):
            raise InvalidInput(
                "--explain must name the model to ask for its learning rate.",
                self._call.place,
                "Assign the model to a variable before fit.",
            )
        return f"{code_of(self._call.receiver)}.optimizer"

    def _known_rate(self) -> str | None:
        """Return the rate after the warm-up, where the program has one and it is a number in the code."""
        settings = self._settings
        if len(settings.reading.compiles) > 1:
            return None
        compiled = settings.reading.compiles[0]
        rate = settings.rate_of(compiled)
        how = settings.scaling(settings.optimizer_of(compiled))
        if isinstance(rate, str):
            return f"{rate} * {settings.factor(how)}"
        is_literal = isinstance(rate, (cst.Float, cst.Integer))
        return f"{code_of(rate)} * {settings.factor(how)}" if is_literal and rate is not None else None


def verbose_on_rank_0(text: str | None) -> str:
    """Return the value of `verbose` that lets one rank alone print."""
    return "0" if text == "0" else f"{text or '1'} if hvd.rank() == 0 else 0"


def _parts_call(arrays: Mapping[str, str], options: Mapping[str, str]) -> str:
    places = [arrays["x"]] + ([arrays["y"]] if "y" in arrays else [])
    if "sample_weight" in arrays:
        places.append(f"sample_weight={arrays['sample_weight']}")
    args = [*places, *(f"{name}={text}" for name, text in options.items())]
    line = f"{_PARTS}({', '.join(args)})"
    return line if len(line) <= LINE_LENGTH else "\n".join([f"{_PARTS}(", *(f"    {arg}," for arg in args), ")"])


def _rows(text: str) -> str:
    """Return the number of samples of data, as it is written."""
    expression = cst.parse_expression(text)
    while isinstance(expression, (cst.List, cst.Tuple)) and expression.elements:
        expression = expression.elements[0].value
    return f"len({code_of(expression)})"


def _share(steps: str) -> str:
    return f"-(-{in_brackets(steps)} // hvd.size())"
