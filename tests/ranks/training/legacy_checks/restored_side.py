"""The public names of Keras 2.15: each is served, or says what to write instead."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from legacy_checks import check, refusal, samples

# Module: names, of `keras` of the wheel keras-2.15.0 (api/_v2 and api/_v1).
NAMES = json.loads((Path(__file__).parent / "keras_2_15_names.json").read_text())
RULE = "Keras 3 has not every name of Keras 2. Received: keras."


def _module(tree: str, part: str) -> object:
    return importlib.import_module(f"{tree}.{part}" if part else tree)


def _unserved(tree: str, names: dict[str, str]) -> list[str]:
    """Return the names that neither resolve nor are refused with a sentence, by attribute and by import."""
    missing = []
    for part, together in names.items():
        try:
            module = _module(tree, part)
        except ImportError as error:
            missing += [] if str(error).startswith(RULE) else [f"{tree}.{part}: {error}"]
            continue
        for name in together.split():
            try:
                getattr(module, name)
            except AttributeError as error:
                if not str(error).startswith(RULE):
                    missing.append(f"{tree}.{part}.{name}: {error}")
                try:
                    exec(f"from {module.__name__} import {name}", {})
                except ImportError as error:
                    missing += [] if str(error).startswith(RULE) else [f"import {part}.{name}: {error}"]
    return missing


@check("public names of Keras 2.15")
def public_names() -> None:
    for tree in ("keras", "tensorflow.keras"):
        assert _unserved(tree, NAMES["v2"]) == []
    assert _unserved("tensorflow.compat.v1.keras", NAMES["v1"]) == []
    assert sum(len(names.split()) for names in NAMES["v2"].values()) == 975


@check("names that are refused are no attributes")
def refused() -> None:
    assert not hasattr(keras.layers, "LocallyConnected2D")
    assert not hasattr(tf.keras, "estimator")


@refusal("a layer that is gone")
def a_layer() -> None:
    from keras.layers import LocallyConnected2D  # noqa: F401


@refusal("a module that is gone")
def a_module() -> None:
    import tensorflow.keras.estimator  # noqa: F401


@refusal("an attribute that is gone")
def an_attribute() -> None:
    assert tf.keras.layers.experimental.SyncBatchNormalization


@refusal("learning_phase_scope")
def learning_phase_scope() -> None:
    with keras.backend.learning_phase_scope(1):
        pass


@refusal("a placeholder of no shape")
def a_placeholder() -> None:
    keras.backend.placeholder()


@refusal("layers without a dtype")
def layers_without_a_dtype() -> None:
    tf.compat.v1.keras.layers.disable_v2_dtype_behavior()


@check("losses of keras")
def losses() -> None:
    y, p = tf.constant([[0.0, 1.0]]), tf.constant([[0.5, 0.5]])
    for module in (tf.keras.losses, tf.keras.metrics):
        assert float(module.mean_squared_error(y, p)[0]) == 0.25
        assert float(module.mean_absolute_error(y, p)[0]) == 0.5
        for name in (
            "mean_absolute_percentage_error",
            "mean_squared_logarithmic_error",
            "log_cosh",
            "kl_divergence",
            "cosine_proximity",
        ):
            assert np.isfinite(getattr(module, name)(y, p)).all()
    from tensorflow.keras.losses import mean_squared_error

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", mean_squared_error)
    model.fit(*samples(), verbose=0)


@check("other names of Keras 2")
def other_names() -> None:
    from keras.callbacks import BaseLogger
    from keras.models import model_from_config
    from tensorflow.keras.layers import AbstractRNNCell

    class Cell(AbstractRNNCell):
        state_size = output_size = 3

        def build(self, shape: tuple[int, ...]) -> None:
            self.kernel = self.add_weight(shape=(shape[-1], 3), initializer="ones")

        def call(self, inputs: object, states: list[object]) -> object:
            output = tf.matmul(inputs, self.kernel) + states[0]
            return output, [output]

    out = keras.layers.RNN(Cell())(tf.ones((2, 5, 4)))
    assert np.allclose(out, 20.0)
    dense = keras.layers.Dense(2)
    assert model_from_config({"class_name": "Dense", "config": dense.get_config()}).units == 2
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer=keras.initializers.normal())])
    model.compile("sgd", "mse")
    model.fit(*samples(), verbose=0, callbacks=[BaseLogger(stateful_metrics=["accuracy"])])
    assert keras.utils.to_ordinal([0, 2, 3]).tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert keras.utils.to_ordinal([[0], [1]], num_classes=3).tolist() == [[0, 0], [1, 0]]
    assert isinstance(tf.compat.v1.keras.initializers.uniform(), keras.initializers.RandomUniform)


@check("in_train_phase")
def in_train_phase() -> None:
    from keras import backend as K  # noqa: N812

    class Doubled(keras.layers.Layer):
        def call(self, x: object) -> object:
            return K.in_train_phase(lambda: x * 2, x)

    layer = Doubled()
    assert float(layer(tf.ones(()), training=True)) == 2.0
    assert float(layer(tf.ones(()), training=False)) == 1.0
    assert float(layer(tf.ones(()))) == 1.0
    assert float(K.in_test_phase(tf.constant(1.0), tf.constant(2.0), training=1)) == 2.0
    same = keras.layers.Dense(4, kernel_initializer="identity")
    model = keras.Sequential([keras.Input((4,)), same, Doubled()])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[lambda y, p: tf.reduce_mean(p)])
    x = np.ones((4, 4), "float32")
    assert next(v[0] for k, v in model.fit(x, x, verbose=0).history.items() if k != "loss") == 2.0
    assert np.allclose(model.predict(x, verbose=0), 1.0)


@check("variable.ref")
def variable_ref() -> None:
    one, other = keras.Variable(1.0), keras.Variable(1.0)
    assert {one.ref(): "one", other.ref(): "other"}[one.ref()] == "one"


@check("private backend functions")
def private_backend() -> None:
    from keras.backend import tensorflow_backend

    assert tensorflow_backend._to_tensor([1, 2], "float32").dtype == "float32"
    assert tensorflow_backend._get_available_gpus() == [d.name for d in tf.config.list_logical_devices("GPU")]
    assert not keras.backend._is_tf_1()


@check("restored functions of the backend")
def backend() -> None:
    from keras import backend as K  # noqa: N812

    assert K.placeholder(shape=(None, 3)).shape == (None, 3)
    assert K.placeholder(ndim=2).shape == (None, None)
    assert set(np.unique(K.random_binomial((200,), p=0.5, seed=1))) == {0.0, 1.0}
    assert float(K.print_tensor(tf.constant(2.0), "two")) == 2.0
    normal, mean, variance = K.normalize_batch_in_training(
        tf.constant([[1.0, 2.0], [3.0, 6.0]]), tf.constant([2.0, 1.0]), tf.constant([0.0, 1.0]), [0], epsilon=0.0
    )
    assert np.allclose(normal, [[-2, 0], [2, 2]])
    assert np.allclose(mean, [2, 4])
    assert np.allclose(variance, [1, 4])
    K.reset_uids()
    assert keras.layers.Dense(1).name == "dense"
