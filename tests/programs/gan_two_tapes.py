"""Digits out of noise: a generator and a discriminator, each with an optimizer and a tape of its own."""

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.keras import layers

hvd.init()
tf.random.set_seed(hvd.rank())

batch_size = 32
noise_size = 16

(images, _), _ = tf.keras.datasets.mnist.load_data()
images = (images.astype("float32") - 127.5) / 127.5
dataset = tf.data.Dataset.from_tensor_slices(images).shard(hvd.size(), hvd.rank())
dataset = dataset.shuffle(5000).repeat().batch(batch_size, drop_remainder=True)

generator = tf.keras.Sequential(
    [
        layers.Dense(64, use_bias=False, input_shape=(noise_size,)),
        layers.LeakyReLU(),
        layers.Dense(784, activation="tanh"),
        layers.Reshape((28, 28)),
    ]
)
discriminator = tf.keras.Sequential(
    [
        layers.Flatten(input_shape=(28, 28)),
        layers.Dense(64),
        layers.LeakyReLU(alpha=0.2),
        layers.Dropout(0.1),
        layers.Dense(1),
    ]
)
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = tf.keras.optimizers.Adam(2e-4 * hvd.size(), beta_1=0.5)
discriminator_optimizer = tf.keras.optimizers.Adam(2e-4 * hvd.size(), beta_1=0.5)


@tf.function
def train_step(real):
    noise = tf.random.normal([batch_size, noise_size])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        fake = generator(noise, training=True)
        real_output = discriminator(real, training=True)
        fake_output = discriminator(fake, training=True)
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
        disc_loss = cross_entropy(tf.ones_like(real_output), real_output)
        disc_loss += cross_entropy(tf.zeros_like(fake_output), fake_output)

    gen_tape = hvd.DistributedGradientTape(gen_tape)
    disc_tape = hvd.DistributedGradientTape(disc_tape)
    gen_grads = gen_tape.gradient(gen_loss, generator.trainable_variables)
    disc_grads = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply_gradients(zip(gen_grads, generator.trainable_variables))
    discriminator_optimizer.apply_gradients(zip(disc_grads, discriminator.trainable_variables))
    return gen_loss, disc_loss


losses = []
for step, real in enumerate(dataset.take(60)):
    gen_loss, disc_loss = train_step(real)
    if step == 0:
        hvd.broadcast_variables(generator.variables, root_rank=0)
        hvd.broadcast_variables(discriminator.variables, root_rank=0)
        hvd.broadcast_variables(generator_optimizer.variables(), root_rank=0)
        hvd.broadcast_variables(discriminator_optimizer.variables(), root_rank=0)
    losses.append(float(disc_loss))
    if step % 20 == 0 and hvd.rank() == 0:
        print("step %d: generator %.3f, discriminator %.3f" % (step, gen_loss, disc_loss))
