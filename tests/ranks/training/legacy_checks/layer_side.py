"""Layers and models that are made of them."""

from __future__ import annotations

import keras
import numpy as np

from legacy_checks import check, dense, refusal, samples


@check("input_shape")
def input_shape() -> None:
    model = keras.Sequential()
    model.add(keras.layers.Conv2D(2, 3, activation="relu", input_shape=(8, 8, 1)))
    assert model.input_shape == (None, 8, 8, 1)
    assert keras.Sequential([keras.layers.Dense(3, input_dim=4)]).built


@check("Sequential.input")
def sequential_input() -> None:
    model = dense()
    features = keras.Model(model.input, model.layers[0].output)
    x, _ = samples(3)
    assert np.allclose(features(x), model.layers[0](x))
    assert keras.Model(inputs=model.inputs, outputs=model.output).output_shape == (None, 1)


@check("batch_input_shape")
def batch_input_shape() -> None:
    model = keras.Sequential([keras.layers.LSTM(2, stateful=True, batch_input_shape=(2, 3, 1)), keras.layers.Dense(1)])
    assert model.input_shape == (2, 3, 1)
    again = keras.Sequential.from_config(model.get_config())
    assert again.input_shape == (2, 3, 1)


@check("how layers compute")
def how_layers_compute() -> None:
    keras.layers.BatchNormalization(axis=-1, fused=True, renorm=False)
    keras.layers.LSTM(3, implementation=2, time_major=False)


@check("InputLayer(input_shape=...)")
def input_layer() -> None:
    model = keras.Sequential()
    model.add(keras.layers.InputLayer(input_shape=(4,)))
    model.add(keras.layers.Dense(2))
    assert model.output_shape == (None, 2)


@check("input_length")
def input_length() -> None:
    assert keras.layers.Embedding(10, 3, input_length=5).output_dim == 3


@check("LeakyReLU(alpha=...)")
def leaky() -> None:
    assert keras.layers.LeakyReLU(alpha=0.125).negative_slope == 0.125


@check("CuDNNLSTM")
def cudnn() -> None:
    assert keras.layers.CuDNNLSTM is keras.layers.LSTM
    from tensorflow.keras.layers import CuDNNGRU

    assert CuDNNGRU is keras.layers.GRU


def layers_are_described_as_before() -> None:
    """Keras reads a layer's arguments with getfullargspec."""

    class Own(keras.layers.Layer):
        def __init__(self, units: int, **options: object) -> None:
            super().__init__(**options)
            self.units = units

    assert Own(3, name="own").get_config()["units"] == 3
    assert keras.layers.LeakyReLU(0.5).get_config()["negative_slope"] == 0.5


check("layers: described as before")(layers_are_described_as_before)


@refusal("time_major")
def time_major() -> None:
    keras.layers.LSTM(2, time_major=True)
