"""TensorFlow's and keras.backend's functions between layers, and functions in files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import backend as K  # noqa: N812

from legacy_checks import check, refusal

FOLDER = Path(tempfile.mkdtemp(prefix="legacy-"))


def functions_model() -> keras.Model:
    """Return a model with functions of three kinds between its layers."""
    keras.utils.set_random_seed(1)
    a, b = keras.Input((4,)), keras.Input((4,))
    x = tf.concat([keras.layers.Dense(3)(a), b], -1)
    x = tf.nn.relu(x) * tf.constant(2.0) + 1.0
    x = tf.reshape(x, [tf.shape(x)[0], 7, 1])
    x = keras.layers.Conv1D(2, 3)(x)
    x = tf.reduce_mean(x, axis=[1])
    x = K.concatenate([x, K.square(x), K.l2_normalize(x, axis=-1), tf.cast(x > 0, tf.float32)])
    x = tf.where(x > 0, x, tf.zeros_like(x))
    first, second = tf.split(x, 2, axis=-1)
    x = tf.keras.backend.mean(first + second, axis=-1, keepdims=True)
    return keras.Model([a, b], keras.layers.Dense(1)(x))


@check("TensorFlow functions between layers")
def functions() -> None:
    model = functions_model()
    data = [np.random.default_rng(i).normal(size=(8, 4)).astype("float32") for i in (0, 1)]
    model.compile("sgd", "mse")
    before = model.predict(data, verbose=0)
    # The same by hand.
    dense, convolution, last = (layer for layer in model.layers if layer.weights)
    x = np.concatenate([dense(data[0]), data[1]], -1)
    x = convolution((np.maximum(x, 0) * 2 + 1)[..., None]).numpy().mean(axis=1)
    norm = x / np.sqrt(np.maximum((x**2).sum(-1, keepdims=True), 1e-12))
    x = np.maximum(np.concatenate([x, x**2, norm, x > 0], -1), 0)
    assert np.allclose(before, last((x[:, :4] + x[:, 4:]).mean(-1, keepdims=True)), atol=1e-5)
    model.fit(data, np.ones((8, 1)), verbose=0)
    after = model.predict(data, verbose=0)
    assert not np.allclose(before, after)
    for name in ("functions.keras", "functions.h5"):
        model.save(FOLDER / name)
        assert np.allclose(after, keras.models.load_model(FOLDER / name).predict(data, verbose=0))
    copy = keras.models.model_from_json(model.to_json())
    copy.set_weights(model.get_weights())
    assert np.allclose(after, copy.predict(data, verbose=0))
    assert K.ndim(model.output) == 2
    assert K.dtype(model.output) == "float32"
    assert K.int_shape(model.output) == (None, 1)


@check("functions with names of layers in .h5 files")
def named_as_layers() -> None:
    x = keras.Input((3,))
    model = keras.Model(x, keras.layers.Multiply()([x, x * 2.0])[:, :2])
    model.save(FOLDER / "named.h5")
    assert np.allclose(keras.models.load_model(FOLDER / "named.h5")(np.full((1, 3), 3.0)), 18.0)


@check("arrays go to TensorFlow's functions as before")
def arrays() -> None:
    assert tf.concat([[1.0], [2.0]], 0).numpy().tolist() == [1, 2]
    assert float(K.mean(tf.constant([1.0, 3.0]))) == 2.0


@refusal("a function of TensorFlow on what is wrong")
def wrong() -> None:
    tf.reshape("text", [[1], "two"])


@refusal("a function of TensorFlow that files do not name")
def without_a_name() -> None:
    x = keras.Input((), dtype="string")
    keras.Model(x, tf.io.encode_base64(x)).to_json()


@check("files name functions that compute, and no others")
def not_tensorflows() -> None:
    for name in ("os.system", "io.write_file", "py_function", "compat.v1.py_func", "raw_ops.WriteFile", "no_such_name"):
        text = functions_model().to_json().replace('"nn.relu"', f'"{name}"')
        # Keras wraps ours in one of its own.
        with pytest.raises(TypeError, match=f"that compute, such as tf.concat. Received: {name}\\."):
            keras.models.model_from_json(text)


@check("get_shape")
def get_shape() -> None:
    x = keras.layers.Dense(5)(keras.Input((3,)))
    assert x.get_shape().as_list() == [None, 5]
    assert x.get_shape()[1] == 5
    assert x.shape == (None, 5)
    assert x.shape.as_list() == [None, 5]
    assert x.shape.rank == x.shape.ndims == 2
    assert not x.shape.is_fully_defined()


@check("Input(5)")
def input_of_one_size() -> None:
    for x in (keras.Input(5), keras.Input(5), keras.layers.Input(shape=np.int64(5)), tf.keras.Input(5)):
        assert x.shape == (None, 5)
    assert keras.Input((5,), name="x").name == "x"
    model = keras.Sequential([keras.layers.Dense(2, input_shape=(4))])
    assert model.input_shape == (None, 4)
    model = keras.Sequential([keras.layers.InputLayer(4), keras.layers.Dense(2)])
    assert model.input_shape == (None, 4)


def tripled(x: object) -> object:
    """Return what a Lambda of the program computes."""
    return x * 3.0


def half(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return shape


@check("functions of a Lambda")
def functions_of_a_lambda() -> None:
    program = sys.modules["__main__"]
    program.tripled, program.half = tripled, half
    x = keras.Input((2,))
    model = keras.Model(x, keras.layers.Lambda(tripled, output_shape=half)(x))
    for name in ("lambda.h5", "lambda.keras"):
        model.save(FOLDER / name)
        assert np.allclose(keras.models.load_model(FOLDER / name)(np.ones((1, 2))), 3.0)
        # What is passed wins.
        other = keras.models.load_model(FOLDER / name, custom_objects={"tripled": lambda x: x * 5.0})
        assert np.allclose(other(np.ones((1, 2))), 5.0)
    assert np.allclose(keras.models.model_from_json(model.to_json())(np.ones((1, 2))), 3.0)
    del program.tripled, program.half


@refusal("a function that the program does not have")
def not_there() -> None:
    x = keras.Input((2,))
    keras.models.model_from_json(keras.Model(x, keras.layers.Lambda(tripled)(x)).to_json())


@refusal("a Lambda's code in a file")
def code() -> None:
    x = keras.Input((2,))
    keras.models.model_from_json(keras.Model(x, keras.layers.Lambda(lambda x: x * 2)(x)).to_json())
