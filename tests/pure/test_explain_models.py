"""`--explain` and models whose optimizer or `fit` it cannot surely see: refused by name, and never written half."""

from __future__ import annotations

from typing import Any

import libcst as cst
import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.explain import explain, written
from jupyter_ddl.protocol import plan_texts

KERAS = "import keras\nimport tensorflow as tf\nkeras.utils.set_random_seed(1)\n"
MODEL = KERAS + "model = keras.Sequential([keras.layers.Dense(1)])\n"
ADAM = MODEL + "model.compile('adam', 'mse')\n"
FIT = "model.fit(x, y)\n"
IN_PLACE = "Run it with --auto, without --explain: nothing needs to be written out for that."
SEE = "--explain must see which optimizer it is. Received: "
EACH_CALL = "--explain must see each call of compile and fit. Received: "
COMPILED = "--explain must see where the model of each fit is compiled. Received: "
CLASS = (
    "--explain must see the class of each model that is trained: it may have a compile or fit of its own. Received: "
)


OWN_FIT = "--explain writes out what trains with Keras's own fit. Received: "
ONE = "--auto distributes the one optimizer of compile: which data a second one is for, it cannot know. Received: "


def of_class(body: str, make: str = "model = Mine()\n", bases: str = "keras.Model") -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{KERAS}class Mine({bases}):\n{lines}{make}"


def own_compile(body: str, call: str = "model.compile('adam')\n") -> str:
    inner = "\n    ".join(body.split("\n"))
    return of_class(f"def compile(self, {inner}") + call + FIT


def own_step(body: str) -> str:
    lines = "".join(f"\n    {line}" for line in body.split("\n"))
    start = "\n    with tf.GradientTape() as tape:\n        loss = self.compute_loss(y=data[1], y_pred=self(data[0]))"
    return of_class(f"def train_step(self, data):{start}{lines}") + "model.compile('adam')\n" + FIT


# The code, and the beginning of what is said of it.
REFUSED = {
    "compile makes the optimizer": (
        own_compile("rate, **more):\nsuper().compile(**more)\nself.optimizer = keras.optimizers.Adam(rate)"),
        f"{SEE}line 4: class Mine with a compile of its own. Have it hand its argument optimizer to super().compile.",
    ),
    "compile takes all in **options": (
        own_compile("*args, **options):\nsuper().compile(*args, **options)"),
        f"{SEE}line 4: class Mine with a compile of its own.",
    ),
    "compile replaces the optimizer": (
        own_compile("optimizer):\noptimizer = keras.optimizers.SGD()\nsuper().compile(optimizer=optimizer)"),
        f"{SEE}line 4: class Mine with a compile of its own.",
    ),
    "compile with a default": (
        own_compile("optimizer='adam'):\nsuper().compile(optimizer=optimizer)", "model.compile()\n"),
        f"{SEE}line 8: model.compile(...) of a class with a compile of its own. Pass optimizer=... in this call.",
    ),
    "compile with another first argument": (
        own_compile("rate, optimizer='adam'):\nsuper().compile(optimizer=optimizer)", "model.compile(0.1)\n"),
        f"{SEE}line 8: model.compile(...) of a class with a compile of its own. Pass optimizer=... in this call.",
    ),
    "compile of a class in between": (
        own_compile("*args):\nsuper().compile(*args)").replace(
            "model = Mine()", "class Other(Mine):\n    pass\nmodel = Other()"
        ),
        f"{SEE}line 4: class Mine with a compile of its own.",
    ),
    "an optimizer that is set": (
        ADAM + "model.optimizer = keras.optimizers.SGD()\n" + FIT,
        f"{SEE}line 6: model.optimizer = .... Pass the optimizer to compile. {IN_PLACE}",
    ),
    "an optimizer that is set in the class": (
        of_class("def build(self, shape):\n    self.optimizer = keras.optimizers.SGD()")
        + "model.compile('adam')\n"
        + FIT,
        f"{SEE}line 6: self.optimizer = .... Pass the optimizer to compile.",
    ),
    "an optimizer by setattr": (
        ADAM + "setattr(model, 'optimizer', keras.optimizers.SGD())\n" + FIT,
        f"{SEE}line 6: setattr(model, 'optimizer', keras.optimizers.SGD()). Pass the optimizer to compile.",
    ),
    "an optimizer of a name from elsewhere": (
        MODEL + "other = keras.optimizers.Adam()\nmodel.compile(mine)\n" + FIT,
        f"{SEE}line 6: model.compile(...) with optimizer=mine. Write e.g. optimizer=keras.optimizers.Adam(1e-3)",
    ),
    "an optimizer that is chosen": (
        MODEL + "model.compile(keras.optimizers.Adam() if a else keras.optimizers.SGD())\n" + FIT,
        f"{SEE}line 5: model.compile(...) with optimizer=keras.optimizers.Adam() if a else",
    ),
    "a string that is chosen": (
        MODEL + "which = 'adam' if a else 'sgd'\nmodel.compile(which)\n" + FIT,
        f"{SEE}line 6: model.compile(...) with optimizer=which.",
    ),
    "a string that a function is given": (
        MODEL + "def prepare(which):\n    model.compile(which)\nprepare('adam')\n" + FIT,
        f"{SEE}line 6: model.compile(...) with optimizer=which.",
    ),
    "an optimizer of the program's own": (
        MODEL + "class Own(keras.optimizers.Adam):\n    pass\nmodel.compile(Own())\n" + FIT,
        f"{SEE}line 7: model.compile(...) with optimizer=Own().",
    ),
    "an optimizer from its description": (
        MODEL + "model.compile(keras.optimizers.get(config))\n" + FIT,
        f"{SEE}line 5: model.compile(...) with optimizer=keras.optimizers.get(config).",
    ),
    "fit of the class's own": (
        of_class("def fit(self, *args):\n    return super().fit(*args)") + "model.compile('adam')\n" + FIT,
        f"{OWN_FIT}line 4: class Mine with a fit of its own. {IN_PLACE}",
    ),
    "fit under another name": (ADAM + "train = model.fit\ntrain(x, y)\n" + FIT, f"{EACH_CALL}line 6: model.fit. Call"),
    "fit in part": (
        ADAM + "import functools\ntrain = functools.partial(model.fit, x)\n" + FIT,
        f"{EACH_CALL}line 7: model.fit. Call it as a method of the model. {IN_PLACE}",
    ),
    "fit by getattr": (ADAM + "getattr(model, 'fit')(x, y)\n" + FIT, f"{EACH_CALL}line 6: getattr(model, 'fit')."),
    "fit of the class": (ADAM + "keras.Model.fit(model, x, y)\n" + FIT, f"{EACH_CALL}line 6: keras.Model.fit."),
    "compile of the class": (
        of_class("pass") + "Mine.compile(model, 'adam')\n" + FIT + "model.compile('sgd')\n",
        f"{EACH_CALL}line 7: Mine.compile.",
    ),
    "code in a text": (ADAM + "exec(text)\n" + FIT, "--explain must see the code that trains. Received: line 6: exec("),
    "code in a file": (
        ADAM + "import runpy\nrunpy.run_path('train.py')\n" + FIT,
        "--explain must see the code that trains. Received: line 7: runpy.run_path('train.py'). Write that code here.",
    ),
    "another model": (ADAM + "other.fit(x, y)\n", f"{COMPILED}line 6: other.fit(...), and no compile of that model."),
    "a clone": (
        ADAM + "twin = keras.models.clone_model(model)\ntwin.fit(x, y)\n",
        f"{COMPILED}line 7: twin.fit(...), and no compile of that model. Put the compile of this model into this code.",
    ),
    "loaded to be compiled": (
        ADAM + "loaded = keras.models.load_model('a.keras', compile=False)\nloaded.fit(x, y)\n",
        f"{COMPILED}line 7: loaded.fit(...), and no compile of that model.",
    ),
    "a parameter that nothing is given": (
        ADAM + "def train(it):\n    it.fit(x, y)\n",
        f"{COMPILED}line 7: it.fit(...), and no compile of that model.",
    ),
    "a lambda": (ADAM + "train = lambda it: it.fit(x, y)\n" + FIT, f"{COMPILED}line 6: it.fit(...), and no compile"),
    "made elsewhere after compile": (
        "from mine import built\n" + ADAM + "model = built()\n" + FIT,
        f"{CLASS}line 8: model.fit(...) of what built(...) makes. Put its code here. {IN_PLACE}",
    ),
    "a class from elsewhere": (
        "from mine import Net\n" + KERAS + "model = Net()\nmodel.compile('adam')\n" + FIT,
        f"{CLASS}line 7: model.fit(...) of what Net(...) makes.",
    ),
    "a base from elsewhere": (
        "from mine import Base\n" + of_class("pass", bases="Base") + "model.compile('adam')\n" + FIT,
        f"{CLASS}line 9: model.fit(...) of what class Mine makes.",
    ),
    "a model from elsewhere": (
        "from mine import model as net\n" + ADAM + FIT + "net.fit(x, y)\n",
        f"{COMPILED}line 8: net.fit(...), and no compile of that model.",
    ),
    "a step without an optimizer": (
        own_step("gradient = tape.gradient(loss, self.w)\nself.w.assign_sub(0.1 * gradient)"),
        (
            "--explain writes out updates by the optimizer of compile. Received: line 4: class Mine with a train_step "
            "without self.optimizer. Update with self.optimizer.apply(gradients, variables)."
        ),
    ),
    "a step with another optimizer": (
        own_step("self.optimizer.apply(tape.gradient(loss, self.w), self.w)\nself.second.apply_gradients(pairs)"),
        f"{ONE}line 4: class Mine with an update by self.second. Write the program with hvd.DistributedGradientTape.",
    ),
    "a step that clips": (
        own_step("found = tape.gradient(loss, self.w)\nfound = clip(found)\nself.optimizer.apply(found, self.w)"),
        (
            "--explain writes out steps that hand their gradients to the optimizer as the tape gives them: explicit "
            "Horovod exchanges them there, and what changes them before would see one rank's. Received: line 4: class "
            "Mine with a train_step that does. Clip with the optimizer's clipnorm, clipvalue or global_clipnorm."
        ),
    ),
    "an optimizer that changes gradients": (
        ADAM + "class Own(keras.optimizers.SGD):\n    def apply_gradients(self, pairs):\n        pass\n" + FIT,
        "--explain writes out steps that hand their gradients to the optimizer as the tape gives them",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_train_without_exchange_is_refused(what: str) -> None:
    code, told = REFUSED[what]
    with pytest.raises(InvalidInput) as raised:
        explain(code, world_size=2)
    assert str(raised.value).startswith(told)


# The code, and how many calls of compile and of fit are written for several ranks.
WRITTEN = {
    "compile that hands the optimizer on": (
        own_compile("optimizer, extra, **more):\nsuper().compile(optimizer=optimizer, **more)\nself.extra = extra"),
        1,
        1,
    ),
    "an alias": (ADAM + "twin = model\ntwin.fit(x, y)\n", 1, 1),
    "a function that builds": (
        KERAS
        + "def built():\n    made = keras.Sequential([])\n    made.compile('sgd')\n    return made\n"
        + "built().fit(x, y)\n",
        1,
        1,
    ),
    "a function that prepares": (
        MODEL + "def prepare(it):\n    it.compile('sgd')\n    return it\nmodel = prepare(model)\n" + FIT,
        1,
        1,
    ),
    "a function that trains": (ADAM + "def train(it):\n    it.fit(x, y)\ntrain(model)\n", 1, 1),
    "a class that holds the model": (
        KERAS + "class Run:\n    def __init__(self):\n        self.optimizer = keras.optimizers.Adam()\n"
        "        self.model = keras.Sequential([])\n        self.model.compile(self.optimizer)\n"
        "    def fit(self, x, y):\n        self.model.fit(x, y)\nRun().fit(x, y)\n",
        1,
        1,
    ),
    "a model that compiles itself": (of_class("def __init__(self):\n    self.compile('adam')") + FIT, 1, 1),
    "models in a loop": (
        KERAS + "for it in [keras.Sequential([]), keras.Sequential([])]:\n    it.compile('sgd')\n    it.fit(x, y)\n",
        1,
        1,
    ),
    "models in a dict": (KERAS + "for k in models:\n    models[k].compile('sgd')\n    models[k].fit(x, y)\n", 1, 1),
    "loaded": (ADAM + "loaded = keras.models.load_model('a.keras')\nloaded.fit(x, y)\n", 1, 1),
    "an optimizer of a function": (
        MODEL + "def made():\n    return keras.optimizers.Adam(1e-3)\nmodel.compile(made())\n" + FIT,
        1,
        1,
    ),
    "an optimizer that a function is given": (
        MODEL + "def prepare(it):\n    model.compile(it)\nprepare(keras.optimizers.SGD(0.1))\n" + FIT,
        1,
        1,
    ),
    "a step of its own": (own_step("found = tape.gradient(loss, self.w)\nself.optimizer.apply(found, self.w)"), 1, 1),
    "another library's class": (
        "from sklearn.base import BaseEstimator\n"
        + ADAM
        + FIT
        + "class Own(BaseEstimator):\n    def fit(self, x, y):\n        return self\nOwn().fit(x, y)\n",
        1,
        1,
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_can_be_seen_is_written(what: str) -> None:
    code, compiles, fits = WRITTEN[what]
    program = explain(code, world_size=2).program
    assert program.count("hvd.DistributedOptimizer(") == compiles
    assert program.count("BroadcastGlobalVariablesCallback(0)") == fits


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "model.compile('adam')\nmodel.fit(x, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])",
            "0 of 1 calls of compile",
        ),
        ("model.compile(hvd.DistributedOptimizer(a))\nmodel.fit(x)", "0 of 1 calls of fit"),
    ],
)
def test_a_program_that_does_not_exchange_is_never_handed_out(program: str, told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        written.check(cst.parse_module(program), compiles=1, fits=1)
    assert str(raised.value) == (
        "A program that --explain writes exchanges the gradients of each model that it trains. Received: "
        f"{told} that do. {IN_PLACE}"
    )


# --- the plan --------------------------------------------------------------------------------------------------


def rows(code: str, **options: Any) -> dict[str, str]:
    return {line[2:16].strip(): line[17:] for line in explain(code, world_size=2, **options).plan[1:]}


@pytest.mark.parametrize(
    ("data", "batch"),
    [
        ("ds = keras.utils.image_dataset_from_directory('a').rebatch(16)", "16 a rank, 32 in all"),
        ("ds = keras.utils.image_dataset_from_directory('a')\nds = ds.rebatch(8).prefetch(2)", "8 a rank, 16 in all"),
        ("ds = tf.data.Dataset.range(9).batch(4)\nds = ds.map(f).cache()", "4 a rank, 8 in all"),
        ("ds = tf.data.Dataset.range(9).padded_batch(4)", "4 a rank, 8 in all"),
        ("ds = tf.data.Dataset.range(9).batch(4).unbatch()", "its size (known when it runs) is that of each rank"),
        (
            "ds = tf.data.Dataset.range(9).batch(4)\nds = ds.apply(f)",
            "its size (known when it runs) is that of each rank",
        ),
    ],
)
def test_the_batch_of_a_dataset_is_that_of_its_last_step(data: str, batch: str) -> None:
    assert rows(f"{ADAM}{data}\nmodel.fit(ds)\n")["batch"] == batch


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_with_no_sample_for_each_rank_is_refused_as_by_auto(size: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        explain(f"{ADAM}model.fit(x, y, batch_size={size})\n", world_size=4, batch="global")
    assert str(raised.value) == (
        f"A batch must have at least one sample for each rank. Received: batches of {size}, 4 ranks. Pass a larger "
        "batch_size, or use fewer ranks."
    )


STEP = own_step("self.optimizer.apply(tape.gradient(loss, self.w), self.w)")
DIFFERS = {
    "train_step": (
        STEP.replace("self.compute_loss(y=data[1], y_pred=self(data[0]))", "tf.reduce_sum(data)"),
        "train_step",
    ),
    "compute_loss": (
        of_class("def compute_loss(self, x, y, y_pred):\n    return y") + "model.compile('adam')\n" + FIT,
        "compute_loss",
    ),
    "add_loss": (
        "class Own(keras.layers.Layer):\n    def call(self, x):\n        self.add_loss(x)\n        return x\n"
        + ADAM
        + FIT,
        "add_loss of Own",
    ),
}


@pytest.mark.parametrize("what", DIFFERS)
def test_a_loss_of_the_program_s_own_is_in_the_plan(what: str) -> None:
    code, name = DIFFERS[what]
    assert (
        rows(code, batch="global")["loss"] == f"that of {name} must be a mean over the batch: the ranks' mean is taken"
    )
    assert rows(code)["loss"] == "where it is a sum over a batch, the mean of the ranks' sums is taken"
    assert "loss" not in rows(STEP)


def test_sums_are_in_the_plan_or_refused() -> None:
    code = MODEL + "model.compile('adam', keras.losses.MeanSquaredError(reduction='sum'))\n" + FIT
    assert rows(code)["loss"] == "where it is a sum over a batch, the mean of the ranks' sums is taken"
    with pytest.raises(InvalidInput) as raised:
        explain(code, world_size=2, batch="global")
    assert str(raised.value) == (
        "--explain with --batch global writes out losses that are means over the batch. Received: line 5: "
        f"keras.losses.MeanSquaredError(reduction='sum'). Leave reduction out. {IN_PLACE}"
    )


@pytest.mark.parametrize(
    ("update", "how"),
    [("assign_add(1)", "what all ranks counted, added up"), ("assign(y)", "the mean of the ranks', by samples")],
)
def test_metrics_of_the_program_s_own_are_in_the_plan(update: str, how: str) -> None:
    own = f"class Own(keras.metrics.Metric):\n    def update_state(self, y, p):\n        self.a.{update}\n"
    assert rows(KERAS + own + ADAM + FIT)["metrics"] == f"Own is {how}"


def test_the_rules_of_the_plan() -> None:
    assert plan_texts.scaling_of(None, is_sgd=True) == "linear"
    assert plan_texts.scaling_of("none", is_sgd=True) == "none"
    assert [plan_texts.factor_of(how, 4) for how in ("linear", "sqrt", "none")] == [4.0, 2.0, 1.0]
    assert [plan_texts.warmup_of(epochs) for epochs in (2, 100)] == [0.5, 3.0]
