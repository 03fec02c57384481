"""A train_step as Keras's guide writes it for JAX: a function of its state, with clipped gradients."""

import jax
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(4)
numbers = np.random.default_rng(4)
x = numbers.normal(size=(90, 5)).astype("float32")
y = np.sin(x.sum(axis=1, keepdims=True)).astype("float32")


class Regressor(keras.Model):
    def loss_of(self, trained, others, inputs, targets):
        predicted, others = self.stateless_call(trained, others, inputs, training=True)
        return keras.ops.mean(keras.ops.abs(targets - predicted)), others

    def train_step(self, state, data):
        trained, others, of_optimizer, metrics = state
        inputs, targets = data[:2]
        gradients_of = jax.value_and_grad(self.loss_of, has_aux=True)
        (loss, others), gradients = gradients_of(trained, others, inputs, targets)
        norm = keras.ops.sqrt(sum(keras.ops.sum(gradient**2) for gradient in gradients))
        factor = keras.ops.minimum(1.0, 0.05 / norm)
        trained, of_optimizer = self.optimizer.stateless_apply(
            of_optimizer, [gradient * factor for gradient in gradients], trained
        )
        return {"absolute": loss}, (trained, others, of_optimizer, metrics)


inputs = keras.Input((5,))
model = Regressor(inputs, layers.Dense(1)(layers.Dense(8, activation="tanh")(inputs)))
model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mae")
history = model.fit(x[:72], y[:72], batch_size=12, epochs=3, validation_data=(x[72:], y[72:]), verbose=0)
