"""Optimizers."""

from __future__ import annotations

import pickle

import keras
import numpy as np
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from legacy_checks import check, dense, reference, refusal, same_weights, samples, trained

SGD = keras.optimizers.SGD


class Own(SGD):
    """A user's own optimizer, which passes on what it does not know."""

    def __init__(self, scale: float = 1.0, **options: object) -> None:
        super().__init__(**options)
        self.scale = scale

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "scale": self.scale}


@check("lr")
def lr() -> None:
    for optimizer in (SGD(lr=0.25), keras.optimizers.Adam(lr=0.25), tf.keras.optimizers.Adagrad(lr=0.25)):
        assert float(optimizer.learning_rate.numpy()) == 0.25
    assert float(Own(lr=0.25).learning_rate.numpy()) == 0.25
    assert "lr" not in SGD(lr=0.25).get_config()
    assert same_weights(trained(SGD(lr=0.25, momentum=0.9)), reference(SGD(0.25, momentum=0.9)))
    assert float(keras.optimizers.get({"class_name": "SGD", "config": {"lr": 0.5}}).learning_rate.numpy()) == 0.5


@check("decay")
def decay() -> None:
    """lr / (1 + decay * iterations), in each optimizer, while the learning rate that callbacks see stays."""
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, decay_steps=1, decay_rate=0.5)
    for make in (SGD, keras.optimizers.Adam, keras.optimizers.RMSprop, keras.optimizers.AdamW, Own):
        old = trained(make(learning_rate=0.1, decay=0.5), run_eagerly=make not in (SGD, keras.optimizers.Adam))
        assert same_weights(old, reference(make(learning_rate=schedule))), make
        assert not same_weights(old, reference(make(learning_rate=0.1))), make
        assert float(old.optimizer.learning_rate.numpy()) == np.float32(0.1)
        assert old.optimizer.decay == 0.5
    assert same_weights(trained(SGD(0.1, decay=0.0)), reference(SGD(0.1)))
    assert SGD(0.1, decay=0.0).decay == 0.0


def decay_of_a_rate_that_callbacks_set() -> None:
    class Halve(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            self.model.optimizer.learning_rate = 0.1 * 0.5**batch

    x, y = samples()
    model, reference = dense(), dense()
    model.compile(SGD(0.1, decay=0.5), "mse")
    model.fit(x, y, batch_size=16, shuffle=False, verbose=0, callbacks=[Halve()])
    reference.compile(SGD(0.1), "mse")
    for step in range(4):
        reference.optimizer.learning_rate = 0.1 * 0.5**step / (1 + 0.5 * step)
        reference.train_on_batch(x[16 * step :][:16], y[16 * step :][:16])
    assert same_weights(model, reference)


def decay_is_kept_in_a_copy() -> None:
    copy = SGD.from_config(SGD(0.1, decay=0.5).get_config())
    assert copy.decay == 0.5
    assert "decay" not in SGD(0.1).get_config()
    scaled = keras.optimizers.LossScaleOptimizer(SGD(0.1, decay=0.5), initial_scale=1.0)
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, decay_steps=1, decay_rate=0.5)
    assert same_weights(trained(scaled), reference(SGD(schedule)))


check("decay: a rate that callbacks set")(decay_of_a_rate_that_callbacks_set)
check("decay: kept in a copy")(decay_is_kept_in_a_copy)


@check("whole numbers")
def whole_numbers() -> None:
    for rate in (1, np.float32(1), np.int64(1), tf.constant(1.0)):
        assert float(SGD(rate, momentum=0).learning_rate.numpy()) == 1.0
    assert float(SGD(learning_rate=1).learning_rate.numpy()) == 1.0
    assert float(SGD(lr=1).learning_rate.numpy()) == 1.0


@check("epsilon=None")
def epsilon_none() -> None:
    adam = keras.optimizers.Adam(lr=0.01, beta_1=0.9, beta_2=0.999, epsilon=None, decay=0.0, amsgrad=False)
    assert same_weights(trained(adam), reference(keras.optimizers.Adam(0.01)))


@check("jit_compile")
def jit_compile() -> None:
    SGD(0.1, jit_compile=False)
    keras.optimizers.Adam(0.1, is_legacy_optimizer=False)


@check("optimizer.lr")
def optimizer_lr() -> None:
    optimizer = SGD(0.5)
    assert optimizer.lr is optimizer.learning_rate
    optimizer.lr = 0.25
    optimizer.lr = optimizer.lr * 2
    assert float(optimizer.learning_rate.numpy()) == 0.5
    optimizer.lr.assign(0.125)
    assert float(optimizer.lr.numpy()) == 0.125


@check("optimizer.variables()")
def variables() -> None:
    optimizer = trained(keras.optimizers.Adam(0.1)).optimizer
    assert [id(one) for one in optimizer.variables()] == [id(one) for one in optimizer.variables]
    assert len(optimizer.variables()) == 2 + 2 * 4
    scaled = keras.optimizers.LossScaleOptimizer(optimizer)
    assert len(scaled.variables()) > len(optimizer.variables)


@check("optimizer.get_weights")
def get_weights() -> None:
    one, other = trained(keras.optimizers.Adam(0.1)), trained(keras.optimizers.Adam(0.1), steps=2)
    other.optimizer.set_weights(one.optimizer.get_weights())
    for a, b in zip(one.optimizer.weights, other.optimizer.weights, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


@check("optimizer.minimize")
def minimize() -> None:
    variable = tf.Variable(3.0)
    SGD(0.5).minimize(lambda: variable * variable, [variable])
    assert float(variable) == 0.0
    weight = keras.Variable(3.0)
    with tf.GradientTape() as tape:
        loss = weight.value * weight.value
    SGD(0.25).minimize(loss, [weight], tape=tape)
    assert float(weight.numpy()) == 1.5


@check("apply_gradients(name=...)")
def apply_gradients() -> None:
    variable = tf.Variable(3.0)
    pairs = zip([tf.constant(1.0)], [variable], strict=True)
    SGD(1.0).apply_gradients(pairs, name="step", experimental_aggregate_gradients=False)
    assert float(variable) == 2.0


@check("legacy optimizers")
def legacy_optimizers() -> None:
    from keras.optimizers.legacy import SGD as Legacy  # noqa: N811
    from tensorflow.keras.optimizers.legacy import Adam

    assert Legacy is SGD
    assert Adam is keras.optimizers.Adam
    assert tf.keras.optimizers.legacy.Nadam(lr=0.1).name.startswith("nadam")


@check("lower-case optimizers")
def lower_case() -> None:
    assert isinstance(keras.optimizers.adam(lr=0.1), keras.optimizers.Adam)
    from tensorflow.keras.optimizers import rmsprop

    assert rmsprop is keras.optimizers.RMSprop


@check("experimental optimizers")
def experimental() -> None:
    assert tf.keras.optimizers.experimental.SGD is SGD


def others_are_left_alone() -> None:
    class Keeps(SGD):
        """Has an attribute of its own by an old name."""

        def __init__(self, lr: float, decay: float) -> None:
            super().__init__(lr)
            self.decay = decay

    assert Keeps(0.5, 0.1).decay == 0.1
    assert type(pickle.loads(pickle.dumps(SGD(0.1).get_config()))) is dict
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    assert float(SGD(schedule).learning_rate) == np.float32(0.1)


check("optimizers: others are left alone")(others_are_left_alone)


@refusal("schedule_decay")
def schedule_decay() -> None:
    keras.optimizers.Nadam(0.1, schedule_decay=0.004)


@refusal("a wrong learning rate is Keras's to refuse")
def wrong_rate() -> None:
    SGD("fast")


assert InvalidInput
