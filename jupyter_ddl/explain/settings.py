"""Decides what `--auto` would do to this code, from which both the plan and the program are made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain.data_kinds import Kind, kind_of
from jupyter_ddl.explain.models import SEE_OPTIMIZER
from jupyter_ddl.modernise.names import OPTIMIZERS, code_of, keyword, optimizer_class
from jupyter_ddl.protocol import plan_texts
from jupyter_ddl.protocol.cell_options import GLOBAL, LINEAR, NONE, SQRT

if TYPE_CHECKING:
    from jupyter_ddl.explain.calls import MethodCall
    from jupyter_ddl.explain.origins import Origin
    from jupyter_ddl.explain.reading import OptimizerCall, Reading
    from jupyter_ddl.protocol.cell_options import AutoOptions

# Pipelines whose number of batches is not known.
_OF_UNKNOWN_LENGTH = re.compile(
    r"from_generator|TFRecord|TextLine|FixedLength|list_files|make_csv_dataset|\byield\b"
    r"|\.(filter|interleave|flat_map|unbatch)\("
)
_BEFORE_STEP = re.compile(r"def on_(train_)?batch_begin\b")
_SCALES_LOSS = ("keras.optimizers.LossScaleOptimizer", "keras.mixed_precision.LossScaleOptimizer")
_NAME_IT = "Write e.g. optimizer=keras.optimizers.Adam(1e-3) in this code; --auto without --explain takes any."


@dataclass(frozen=True)
class Settings:
    """How the program is distributed.

    Attributes:
        reading: what its code says.
        options: what was asked for.
        world_size: the number of ranks, for the plan; the program asks Horovod.
    """

    reading: Reading
    options: AutoOptions
    world_size: int

    @property
    def shares_batches(self) -> bool:
        """Whether the batch in the code is that of all ranks together."""
        return self.options.batch == GLOBAL

    def scaling(self, optimizer: str) -> str:
        """Return how the learning rate of a class of optimizers grows with the batch: linear, sqrt or none."""
        if self.shares_batches:
            return NONE
        return plan_texts.scaling_of(self.options.scale_lr, is_sgd=optimizer == "SGD")

    def factor(self, how: str) -> str:
        """Return the factor on the learning rate, as it is written."""
        return {LINEAR: "hvd.size()", SQRT: "hvd.size() ** 0.5", NONE: ""}[how]

    @property
    def how(self) -> str:
        """How the learning rate of the program's optimizers grows.

        Raises:
            InvalidInput: of one in another way than of the next, where the program must have one factor.
        """
        names = sorted({self.optimizer_of(call) for call in self.reading.compiles})
        found = {self.scaling(name) for name in names}
        if len(found) > 1:
            raise InvalidInput(
                "--explain writes out one factor on the learning rate.",
                f"{' and '.join(names)}",
                "Pass --scale-lr, or explain one of them at a time.",
            )
        return found.pop()

    @property
    def scales(self) -> bool:
        """Whether any learning rate grows."""
        return any(self.scaling(self.optimizer_of(call)) != NONE for call in self.reading.compiles)

    @property
    def fits_again(self) -> bool:
        """Whether a model may continue a training, and so is warm."""
        fits = self.reading.fits
        return len(fits) > 1 or fits[0].may_repeat or "load_model" in self.reading.code

    @property
    def sets_rate_in_steps(self) -> bool:
        """Whether a callback of the program's own sets the rate before a step."""
        return self.reading.sets_rate and bool(_BEFORE_STEP.search(self.reading.code))

    @property
    def has_schedule(self) -> bool:
        """Whether a learning rate is a schedule object."""
        return any(call.rate is not None and self.schedule_of(call.rate.value) for call in self.reading.optimizers)

    @property
    def warms_up_by_itself(self) -> bool:
        """Whether Horovod's own warm-up does not serve: it sets the rate, and must know the steps of an epoch."""
        if not self.scales:
            return False
        if self.options.warmup_epochs and self.fits_again:
            return True  # one fit may be shorter than the warm-up
        code = self.reading.code
        counts = all(call.value("steps_per_epoch") is not None for call in self.reading.fits)
        return self.has_schedule or self.reading.sets_rate or (bool(_OF_UNKNOWN_LENGTH.search(code)) and not counts)

    def schedule_of(self, rate: cst.BaseExpression) -> str:
        """Return the class of a learning rate that is a schedule object; the code where it is one of several."""
        names = {self._schedule_class(origin) for origin in self.reading.origins.of(rate)}
        return names.pop() if len(names) == 1 else code_of(rate) if all(names) else ""

    def _schedule_class(self, origin: Origin) -> str:
        if isinstance(origin, cst.ClassDef):
            is_one = any("LearningRateSchedule" in code_of(base.value) for base in origin.bases)
            return origin.name.value if is_one else ""
        meaning = self.reading.meaning(origin.func) if isinstance(origin, cst.Call) else ""
        return meaning.rpartition(".")[2] if meaning.startswith("keras.optimizers.schedules.") else ""

    def optimizer_of(self, call: MethodCall) -> str:
        """Return the class of the optimizer that a call of `compile` is given.

        Raises:
            InvalidInput: the code does not say it.
        """
        given = call.value("optimizer")
        if given is None:
            return "RMSprop"  # Keras's own default
        if (text := self.text_of(given)) is not None:
            found = {optimizer_class(f"keras.optimizers.{text}")}
        else:
            found = {None if made is None else made.name for made in self._made_by(given)}
        name = found.pop() if len(found) == 1 else None
        if name is None:
            raise InvalidInput(SEE_OPTIMIZER, f"{call.place} with optimizer={code_of(given)}", _NAME_IT)
        return name

    def text_of(self, given: cst.BaseExpression | None) -> str | None:
        """Return the string that an optimizer is named by; None where it is none."""
        found = self.reading.constant(given)
        return found if isinstance(found, str) else None

    def rate_of(self, call: MethodCall) -> cst.BaseExpression | str | None:
        """Return the learning rate in the code, or Keras's default as text; None where the code does not show it."""
        given = call.value("optimizer")
        if given is None or self.text_of(given) is not None:
            return OPTIMIZERS[self.optimizer_of(call)]
        made = self._made_by(given)
        if len(made) != 1 or made[0] is None:
            return None
        return OPTIMIZERS[made[0].name] if made[0].rate is None else made[0].rate.value

    def kind(self, fit: MethodCall) -> Kind | None:
        """Return what kind of data a call of `fit` is given.

        Raises:
            InvalidInput: the code does not say it, and --auto goes by it.
        """
        data = fit.value("x")
        if data is None:
            raise InvalidInput(
                "fit must be given data.", fit.place, "Pass arrays, a tf.data.Dataset or a keras.utils.PyDataset."
            )
        if fit.value("y") is not None:
            return Kind.ARRAYS
        kind = kind_of(self.reading, data)
        if kind is None and not self.shares_batches:
            raise InvalidInput(
                "--explain must see what kind of data fit is given.",
                f"{fit.place} with {code_of(data)}, which is only known when it runs",
                "Explain it together with the code that makes the data; --auto without --explain looks at them.",
            )
        return kind

    def warmup_epochs(self, fit: MethodCall) -> str:
        """Return over how many epochs the learning rate grows, as it is written."""
        if self.options.warmup_epochs is not None:
            return f"{self.options.warmup_epochs:g}"
        epochs = fit.text("epochs") or "1"
        known = self.reading.constant(fit.value("epochs")) if fit.value("epochs") is not None else 1
        if isinstance(known, int):
            return f"{plan_texts.warmup_of(known):g}"
        return f"min({plan_texts.WARMUP_EPOCHS}, {times(epochs, '/', str(plan_texts.WARMUP_PART))})"

    def _made_by(self, given: cst.BaseExpression) -> list[OptimizerCall | None]:
        """Return the calls that make an optimizer, wherever in the code they are; None for what is made elsewhere."""
        found: list[OptimizerCall | None] = []
        for origin in self.reading.origins.of(given):
            made = next((each for each in self.reading.optimizers if each.node is origin), None)
            if made is None and isinstance(origin, cst.Call) and self.reading.meaning(origin.func) in _SCALES_LOSS:
                inner = keyword(origin, "inner_optimizer") or next(iter(origin.args), None)
                found += [None] if inner is None else self._made_by(inner.value)
            else:
                found.append(made)
        return found


def times(text: str, sign: str, factor: str) -> str:
    """Return `text sign factor`, with brackets where they are needed."""
    return f"{in_brackets(text)} {sign} {factor}"


def in_brackets(text: str) -> str:
    """Return an expression in brackets, where it has more than one part."""
    expression = cst.parse_expression(text)
    is_one = isinstance(expression, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float))
    return text if is_one or expression.lpar else f"({text})"
