"""A program for ranks: trainings whose layers are made in `keras.RematScope`, and without it."""

SCOPES = """
import contextlib, keras, numpy as np

class Scaled(keras.layers.Layer):
    '''Its call takes no `training`, and no layer is within it.'''
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer='ones')
    def call(self, x):
        return keras.ops.gelu(x * self.scale)

KINDS = {'scaled': Scaled, 'dense': lambda: keras.layers.Dense(6, 'gelu'), 'dropout': lambda: keras.layers.Dropout(0.3)}
given = np.random.default_rng(1).normal(size=(56, 6)).astype('float32')
wanted = given.sum(axis=1, keepdims=True)

def trained_in(mode, kind):
    keras.utils.set_random_seed(5)
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(6)(inputs)
    with keras.RematScope(mode) if mode else contextlib.nullcontext():
        layer = KINDS[kind]()
        assert (layer._remat_mode.mode if mode else layer._remat_mode) == mode
        hidden = layer(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile('adam', 'mse')
    return model.fit(given, wanted, batch_size=14, epochs=2, shuffle=False, verbose=0).history['loss']
"""
