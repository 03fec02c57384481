"""CosmoGAN: makes maps of gravitational lensing, with a generator and a discriminator that two optimizers train.

Source: Mustafa et al. 2017, "Creating Virtual Universes Using Generative Adversarial Networks" (arXiv:1706.02390), and
its authors' code (github.com/MustafaMustafa/cosmoGAN at 87dc446: networks/run_dcgan.py, models/dcgan.py, models/ops.py,
models/main.py). Maps of 256 x 256 pixels, 64 a batch, in the range of tanh. The generator: 64 normal random numbers, a
dense layer to 16 x 16 x 512, four transposed convolutions of 5 x 5 with stride 2 to 256, 128, 64 and 1 channels;
batch normalisation and ReLU between them, tanh at the end. The discriminator: four convolutions of 5 x 5 with stride
2 to 64, 128, 256 and 512 channels, leaky ReLU of 0.2, batch normalisation after all but the first, one dense output.
Initial weights are normal with 0.02. Both are trained by ADAM with learning rate 0.0002 and beta_1 0.5 in the same
step, and in one step of a hundred the discriminator's labels are flipped.

The authors' simulated maps are available on request from them. Those made here are Gaussian random fields with a power
law of the frequency, -2 (ours), through an exponential, as lensing maps are skewed, and scaled into tanh's range.

Runs on: every process that trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part

LATENT = 64
LEARNING_RATE, BETA_1 = 2e-4, 0.5
FLIPPED = 0.01
CHANNELS = 64
LAYERS = 4
_SPECTRUM = -2.0


def generator(keras: Any, size: int) -> Any:
    """Return the generator: (batch, 64) -> (batch, size, size, 1)."""
    layers, weights = keras.layers, keras.initializers.RandomNormal(stddev=0.02)
    edge, channels = size // 2**LAYERS, CHANNELS * 2 ** (LAYERS - 1)
    stack = [
        layers.InputLayer((LATENT,)),
        layers.Dense(edge * edge * channels, kernel_initializer=weights),
        layers.Reshape((edge, edge, channels)),
    ]
    for i in range(1, LAYERS + 1):
        stack += [layers.BatchNormalization(momentum=0.9, epsilon=1e-5), layers.ReLU()]
        filters = 1 if i == LAYERS else channels // 2**i
        stack.append(layers.Conv2DTranspose(filters, 5, 2, padding="same", kernel_initializer=weights))
    return keras.Sequential([*stack, layers.Activation("tanh")])


def discriminator(keras: Any, size: int) -> Any:
    """Return the discriminator: (batch, size, size, 1) -> logits (batch, 1)."""
    layers, weights = keras.layers, keras.initializers.TruncatedNormal(stddev=0.02)
    stack = [layers.InputLayer((size, size, 1))]
    for i in range(LAYERS):
        stack.append(layers.Conv2D(CHANNELS * 2**i, 5, 2, padding="same", kernel_initializer=weights))
        if i:
            stack.append(layers.BatchNormalization(momentum=0.9, epsilon=1e-5))
        # Keras 2 and 3 name the slope differently.
        stack.append(layers.LeakyReLU(0.2))
    dense = layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(stddev=0.02))
    return keras.Sequential([*stack, layers.Flatten(), dense])


def losses(made: Any, judged: Any) -> tuple[Any, Any]:
    """Return the functions of a batch of maps that give the discriminator's and the generator's loss.

    Args:
        made: the generator.
        judged: the discriminator.
    """
    import tensorflow as tf

    def cross_entropy(logits: Any, label: Any) -> Any:
        labels = tf.fill(tf.shape(logits), label)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))

    def fakes(maps: Any) -> Any:
        return made(tf.random.normal((tf.shape(maps)[0], LATENT)), training=True)

    def of_discriminator(maps: Any) -> Any:
        real = tf.where(tf.random.uniform([]) < FLIPPED, 0.0, 1.0)
        fake = tf.where(tf.random.uniform([]) < FLIPPED, 1.0, 0.0)
        on_real, on_fake = judged(maps, training=True), judged(fakes(maps), training=True)
        return cross_entropy(on_real, real) + cross_entropy(on_fake, fake)

    def of_generator(maps: Any) -> Any:
        return cross_entropy(judged(fakes(maps), training=True), 1.0)

    return of_discriminator, of_generator


def optimizers(keras: Any) -> tuple[Any, Any]:
    """Return the discriminator's and the generator's."""
    first, second = (keras.optimizers.Adam(LEARNING_RATE, beta_1=BETA_1) for _ in range(2))
    return first, second


def trainable(keras: Any, size: int) -> Any:
    """Return CosmoGAN as a Keras 3 model with a `train_step` of its own, for `fit` and for `--auto`.

    Example:
        >>> gan = trainable(keras, 64)
        >>> gan.compile()
        >>> gan.fit(maps, batch_size=64)
    """
    import tensorflow as tf

    class CosmoGan(keras.Model):
        """Trains the discriminator, then the generator, on each batch."""

        def __init__(self) -> None:
            super().__init__()
            self.generator, self.discriminator = generator(keras, size), discriminator(keras, size)
            self.of_discriminator, self.of_generator = losses(self.generator, self.discriminator)
            self.for_discriminator, self.for_generator = optimizers(keras)

        def call(self, inputs: Any, training: bool = False) -> Any:
            """Return the discriminator's logits."""
            return self.discriminator(inputs, training=training)

        def train_step(self, data: Any) -> dict[str, Any]:
            """Update both."""
            maps = data[0] if isinstance(data, tuple) else data
            found = {}
            for name, loss, network, optimizer in (
                ("d_loss", self.of_discriminator, self.discriminator, self.for_discriminator),
                ("g_loss", self.of_generator, self.generator, self.for_generator),
            ):
                with tf.GradientTape() as tape:
                    found[name] = loss(maps)
                weights = network.trainable_variables
                optimizer.apply(tape.gradient(found[name], weights), weights)
            return found

    return CosmoGan()


def _parts(keras: Any, size: int) -> list[Part]:
    made, judged = generator(keras, size), discriminator(keras, size)
    (of_discriminator, of_generator), (first, second) = losses(made, judged), optimizers(keras)
    return [
        Part(judged.trainable_variables, first, lambda x, _: of_discriminator(x)),
        Part(made.trainable_variables, second, lambda x, _: of_generator(x)),
    ]


def _data(random: np.random.Generator, samples: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size)))
    frequency[0, 0] = np.inf
    fields = np.fft.ifft2(np.fft.fft2(random.normal(size=(samples, size, size))) * frequency ** (_SPECTRUM / 2)).real
    maps = np.exp(fields / fields.std()) - 1
    maps = np.tanh(maps / (3 * maps.std()))
    return maps[..., None].astype("float32"), np.zeros(samples, "int32")


MODEL = BenchmarkModel("cosmogan", "Mustafa et al. 2017, arXiv:1706.02390 (data made)", 64, 256, _parts, _data)
