"""A variational autoencoder whose train_step is written out: the optimizer of compile() does the exchange (2021)."""

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

hvd.init()
latent_dim = 2


class Sampling(layers.Layer):
    """A point near z_mean, as far away as z_log_var allows."""

    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = tf.random.normal(shape=tf.shape(z_mean))
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


encoder_inputs = keras.Input(shape=(784,))
x = layers.Dense(64, activation="relu")(encoder_inputs)
z_mean = layers.Dense(latent_dim, name="z_mean")(x)
z_log_var = layers.Dense(latent_dim, name="z_log_var")(x)
z = Sampling()([z_mean, z_log_var])
encoder = keras.Model(encoder_inputs, [z_mean, z_log_var, z], name="encoder")

latent_inputs = keras.Input(shape=(latent_dim,))
x = layers.Dense(64, activation="relu")(latent_inputs)
decoder = keras.Model(latent_inputs, layers.Dense(784, activation="sigmoid")(x), name="decoder")


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super(VAE, self).__init__(**kwargs)
        self.encoder = encoder
        self.decoder = decoder
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            z_mean, z_log_var, z = self.encoder(data)
            reconstruction = self.decoder(z)
            error = 784 * tf.reduce_mean(keras.losses.binary_crossentropy(data, reconstruction))
            divergence = -0.5 * tf.reduce_mean(1 + z_log_var - tf.square(z_mean) - tf.exp(z_log_var))
            total = error + divergence
        grads = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.loss_tracker.update_state(total)
        return {"loss": self.loss_tracker.result()}


(x_train, _), _ = keras.datasets.mnist.load_data()
x_train = np.array_split(x_train.reshape(-1, 784).astype("float32") / 255, hvd.size())[hvd.rank()]

vae = VAE(encoder, decoder)
vae.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam()))
history = vae.fit(
    x_train,
    epochs=2,
    batch_size=128,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=2 if hvd.rank() == 0 else 0,
)
