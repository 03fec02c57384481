"""keras.backend, and modules and names that moved."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from legacy_checks import check, dense, refusal, samples


@check("backend functions")
def backend_functions() -> None:
    from keras import backend as K  # noqa: N812

    x = tf.constant([1.0, 3.0])
    assert float(K.mean(x)) == 2.0
    assert float(K.sum(K.square(x))) == 10.0
    assert K.image_data_format() == "channels_last"
    assert K.floatx() == "float32"
    assert K.get_value(keras.optimizers.SGD(0.5).learning_rate) == 0.5
    assert float(K.logsumexp(tf.constant([0.0, 0.0]))) == np.float32(np.log(2))
    assert K.is_tensor(x)
    assert K.int_shape(x) == (2,)
    from keras.backend import epsilon, flatten

    assert epsilon() == 1e-7
    assert flatten(tf.ones((2, 2))).shape == (4,)

    def loss(y_true: object, y_pred: object) -> object:
        return K.mean(K.square(y_pred - y_true), axis=-1)

    model = dense()
    model.compile("sgd", loss)
    model.fit(*samples(), verbose=0)


@check("K.set_value")
def set_value() -> None:
    for backend in (keras.backend, tf.keras.backend):
        optimizer = keras.optimizers.SGD(0.5)
        backend.set_value(optimizer.lr, 0.25)
        assert backend.get_value(optimizer.lr) == 0.25
        variable = tf.Variable(1.0)
        backend.set_value(variable, 2.0)
        assert backend.eval(variable) == 2.0
        backend.batch_set_value([(variable, 3.0), (optimizer.lr, 0.125)])
        assert (float(variable), float(optimizer.lr.numpy())) == (3.0, 0.125)
        assert backend.get_value(0.5) == 0.5


@check("learning_phase")
def learning_phase() -> None:
    from keras import backend as K  # noqa: N812

    assert K.learning_phase() == 0
    K.set_learning_phase(1)
    assert K.learning_phase() == 1
    K.clear_session()
    assert tf.keras.backend.learning_phase() == 0


@check("image_dim_ordering")
def image_dim_ordering() -> None:
    from keras import backend as K  # noqa: N812

    assert K.image_dim_ordering() == "tf"
    K.set_image_dim_ordering("th")
    assert K.image_data_format() == "channels_first"
    K.set_image_dim_ordering("tf")


@check("K.function")
def function() -> None:
    from keras import backend as K  # noqa: N812

    model = dense()
    x, _ = samples(3)
    first = K.function([model.input, K.learning_phase], [model.layers[0].output])
    assert np.allclose(first([x, 0])[0], model.layers[0](x).numpy())


# --- preprocessing ---------------------------------------------------------------------------------------------


def pictures() -> Path:
    """Return a folder of pictures, a folder inside for each of two classes."""
    folder = Path(tempfile.mkdtemp(prefix="legacy-"))
    for name, colour in (("cats", 50), ("dogs", 200)):
        (folder / name).mkdir()
        for i in range(4):
            keras.utils.save_img(folder / name / f"{i}.png", np.full((8, 8, 3), colour, "uint8"), scale=False)
    return folder


@check("keras.preprocessing")
def preprocessing() -> None:
    from keras.preprocessing.image import ImageDataGenerator, array_to_img, img_to_array, load_img
    from keras.preprocessing.sequence import TimeseriesGenerator, pad_sequences
    from keras.preprocessing.text import Tokenizer
    from tensorflow.keras.preprocessing.image import ImageDataGenerator as Theirs

    assert Theirs is ImageDataGenerator is keras.preprocessing.image.ImageDataGenerator
    folder = pictures()
    assert img_to_array(load_img(folder / "cats" / "0.png")).shape == (8, 8, 3)
    assert array_to_img(np.ones((2, 2, 3))).size == (2, 2)
    words = Tokenizer(num_words=10)
    words.fit_on_texts(["a b", "b"])
    assert words.texts_to_sequences(["b a"]) == [[1, 2]]
    assert pad_sequences([[1]], maxlen=2).tolist() == [[0, 1]]
    assert len(TimeseriesGenerator(np.arange(10), np.arange(10), length=3)) == 1
    train(ImageDataGenerator(rescale=1 / 255, horizontal_flip=True, rotation_range=8), folder)


def train(generator: object, folder: Path) -> None:
    """Train as the programs of 2018 do."""
    from keras.layers import Conv2D, Dense, Flatten
    from keras.models import Sequential

    model = Sequential([Conv2D(2, 3, activation="relu", input_shape=(8, 8, 3)), Flatten(), Dense(2, "softmax")])
    model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.Adam(lr=0.05), metrics=["accuracy"])
    flow = generator.flow_from_directory(folder, target_size=(8, 8), batch_size=4)  # type: ignore[attr-defined]
    fitted = model.fit_generator(flow, steps_per_epoch=6, epochs=3, validation_data=flow, workers=2, verbose=0)
    assert model.optimizer.iterations.numpy() == 18
    assert len(fitted.history["acc"]) == 3
    x, y = flow[0]
    arrays = generator.flow(x, y, batch_size=2)  # type: ignore[attr-defined]
    model.fit_generator(arrays, steps_per_epoch=len(x) // 2, epochs=1, verbose=0)
    assert len(model.evaluate_generator(arrays, len(arrays))) == 2
    assert model.predict_generator(arrays).shape == (4, 2)


@check("layers of tf.keras")
def layers_of_tf_keras() -> None:
    from keras.layers import ThresholdedReLU
    from keras.losses import Reduction

    assert ThresholdedReLU is tf.keras.layers.ThresholdedReLU
    assert Reduction.SUM == "sum"


@check("to_categorical(dtype=...)")
def to_categorical() -> None:
    for utils in (keras.utils, tf.keras.utils):
        assert utils.to_categorical([0, 1], num_classes=3, dtype="int8").dtype == "int8"
        assert utils.to_categorical([0, 1], nb_classes=3).shape == (2, 3)
        assert utils.to_categorical(y=[[0], [1]]).tolist() == [[1, 0], [0, 1]]
    from tensorflow.keras.utils import to_categorical as third

    assert third([1], 2, "float32").dtype == "float32"


# --- modules ---------------------------------------------------------------------------------------------------


@check("tensorflow.python.keras")
def private_tree() -> None:
    from tensorflow.python import keras as private
    from tensorflow.python.keras import backend
    from tensorflow.python.keras.datasets import mnist
    from tensorflow.python.keras.layers import Dense
    from tensorflow.python.keras.models import Sequential

    assert Dense is keras.layers.Dense
    assert Sequential is keras.Sequential is private.Sequential
    assert mnist.load_data is keras.datasets.mnist.load_data
    assert backend.image_data_format() == "channels_last"


@check("keras.layers.core")
def moved_layers() -> None:
    from keras.layers.advanced_activations import LeakyReLU
    from keras.layers.convolutional import Conv2D, MaxPooling2D
    from keras.layers.core import Activation, Dense, Dropout, Flatten
    from keras.layers.embeddings import Embedding
    from keras.layers.merge import add, concatenate
    from keras.layers.normalization import BatchNormalization
    from keras.layers.recurrent import LSTM
    from keras.layers.wrappers import TimeDistributed
    from tensorflow.keras.layers.experimental.preprocessing import Rescaling

    for layer in (LeakyReLU, Conv2D, MaxPooling2D, Activation, Dense, Dropout, Flatten, Embedding, add, concatenate):
        assert getattr(keras.layers, layer.__name__) is layer
    for layer in (BatchNormalization, LSTM, TimeDistributed, Rescaling):
        assert getattr(keras.layers, layer.__name__) is layer
    assert keras.layers.noise.GaussianNoise is keras.layers.GaussianNoise
    assert tf.keras.layers.experimental.preprocessing.RandomFlip is keras.layers.RandomFlip
    namespace: dict[str, object] = {}
    exec("from keras.layers.core import *", namespace)
    assert namespace["Dense"] is Dense


@check("keras.engine")
def engine() -> None:
    import keras.engine as everything
    from keras.engine.topology import Input, InputSpec, Layer
    from keras.engine.training import Model

    assert (Layer, InputSpec, Input, Model) == (
        keras.layers.Layer,
        keras.layers.InputSpec,
        keras.Input,
        keras.Model,
    )
    assert everything.Layer is keras.engine.base_layer.Layer


@check("keras.utils.np_utils")
def np_utils() -> None:
    from keras.utils import np_utils as module
    from keras.utils.data_utils import Sequence
    from keras.utils.generic_utils import get_custom_objects
    from keras.utils.np_utils import to_categorical
    from keras.utils.vis_utils import plot_model

    assert module.to_categorical([1], 2).tolist() == to_categorical([1], 2).tolist() == [[0, 1]]
    assert (Sequence, plot_model) == (keras.utils.PyDataset, keras.utils.plot_model)
    assert get_custom_objects() is keras.utils.get_custom_objects()


@check("other modules")
def other_modules() -> None:
    from keras.callbacks.callbacks import EarlyStopping

    assert EarlyStopping is keras.callbacks.EarlyStopping
    assert tf.keras.experimental.CosineDecay is keras.optimizers.schedules.CosineDecay


@check("mixed_precision.experimental")
def mixed_precision() -> None:
    from tensorflow.keras.mixed_precision import experimental

    before = keras.config.dtype_policy()
    try:
        experimental.set_policy(experimental.Policy("mixed_bfloat16"))
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy(before)
    scaled = tf.keras.mixed_precision.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.1), "dynamic")
    assert isinstance(scaled, keras.optimizers.LossScaleOptimizer)


def real_modules_stay() -> None:
    import importlib.util

    assert keras.__spec__.loader.__class__.__module__ == "_frozen_importlib_external"
    assert importlib.util.find_spec("keras.layers.no_such_module") is None
    assert not hasattr(keras, "no_such_name")
    assert not hasattr(tf.keras.layers, "no_such_layer")


check("modules: the real ones stay")(real_modules_stay)


@refusal("a name that Keras never had")
def no_such_layer() -> None:
    from keras.layers.core import NoSuchLayer  # noqa: F401


@refusal("a fixed loss scale")
def fixed_scale() -> None:
    tf.keras.mixed_precision.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.1), 128)


@refusal("learning phase 2")
def phase_2() -> None:
    keras.backend.set_learning_phase(2)


@refusal("fit in learning phase 0")
def fit_in_phase_0() -> None:
    model = dense()
    model.compile("sgd", "mse")
    keras.backend.set_learning_phase(0)
    try:
        model.fit(*samples(), verbose=0)
    finally:
        keras.backend.clear_session()


@refusal("a switch of the learning phase")
def switched_phase() -> None:
    keras.backend.set_learning_phase(0)
    try:
        keras.backend.set_learning_phase(1)
    finally:
        keras.backend.clear_session()


@refusal("set_value of a number")
def set_a_number() -> None:
    keras.backend.set_value(keras.optimizers.SGD(0.1, momentum=0.9).momentum, 0.5)


@refusal("K.function with updates")
def function_with_updates() -> None:
    model = dense()
    keras.backend.function([model.input], [model.output], updates=[1])
