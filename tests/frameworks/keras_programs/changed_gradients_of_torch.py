"""Gradients that the program changes before the update: projected, by sign, of two losses; and no optimizer at all."""

import keras
import numpy as np
import torch
from keras import layers

keras.utils.set_random_seed(42)
numbers = np.random.default_rng(42)
x = numbers.normal(size=(102, 6)).astype("float32")
y = np.cos(x.sum(axis=1, keepdims=True)).astype("float32")


class TwoLosses(keras.Sequential):
    """Two backward passes into one gradient, and a penalty on the gradient of the inputs."""

    def train_step(self, data):
        inputs, targets = data
        self.zero_grad()
        self.compute_loss(y=targets, y_pred=self(inputs, training=True)).backward()
        moved = inputs.clone().requires_grad_()
        (of_inputs,) = torch.autograd.grad(self(moved, training=True).sum(), moved, create_graph=True)
        (0.1 * of_inputs.square().sum(dim=1).mean()).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), 0.05)
        gradients = [variable.value.grad for variable in self.trainable_weights]
        with torch.no_grad():
            self.optimizer.apply(gradients, self.trainable_weights)
        return {}


class BySign(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars):
        return super().apply_gradients([(torch.sign(gradient), variable) for gradient, variable in grads_and_vars])


class Sharpness(keras.Sequential):
    """Gradients at weights that the whole batch's gradient has moved, and no optimizer for the update."""

    def train_step(self, data):
        inputs, targets = data
        values = [variable.value for variable in self.trainable_variables]
        first = torch.autograd.grad(self.compute_loss(y=targets, y_pred=self(inputs, training=True)), values)
        norm = torch.sqrt(sum(gradient.square().sum() for gradient in first)) + 1e-12
        moves = [0.05 * gradient / norm for gradient in first]
        with torch.no_grad():
            for value, move in zip(values, moves, strict=True):
                value += move
        loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        second = torch.autograd.grad(loss, values)
        with torch.no_grad():
            for value, move, gradient in zip(values, moves, second, strict=True):
                value -= move + 0.1 * gradient
        self._loss_tracker.update_state(loss.detach(), sample_weight=targets.shape[0])
        return {"loss": self._loss_tracker.result()}


def layers_of():
    return [keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]


ATTRIBUTES = keras.optimizers.Adam(
    0.1, global_clipnorm=0.02, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3
)
results = {}
for name, made, optimizer in (
    ("sharpness", Sharpness(layers_of()), "sgd"),
    ("sign", keras.Sequential(layers_of()), BySign(0.003)),
    ("attributes", keras.Sequential(layers_of()), ATTRIBUTES),
):
    made.compile(optimizer, "mse")
    made.fit(x, y, batch_size=20, epochs=2, verbose=0)
    for place, weight in enumerate(made.get_weights()):
        results[f"{name} {place}"] = float(np.abs(weight).sum())

model = TwoLosses(layers_of())
model.compile(keras.optimizers.SGD(0.5), "mse")
model.fit(x, y, batch_size=20, epochs=3, verbose=0)
predictions = model.predict(x, verbose=0)
