"""A training on sequences that end early, with a mask, for tests of `--memory accumulate`."""

# Sequences of 0 to 5 steps, padded with the token 0.
MASKED = """
import keras, numpy as np
def trained_on_steps(mask_zero, of_steps, sample_weight=None):
    keras.utils.set_random_seed(5)
    x = keras.layers.Embedding(9, 3, mask_zero=mask_zero)(inputs := keras.Input((5,), dtype='int32'))
    x = x if of_steps else keras.layers.SimpleRNN(4)(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), 'mse')
    target = y_of_steps if of_steps else y_of_steps[:, 0]
    history = model.fit(tokens, target, sample_weight=sample_weight, batch_size=14, epochs=3, verbose=0)
    return [w.tolist() for w in model.get_weights()], history.history
steps = np.random.default_rng(2)
is_step = np.arange(5) < steps.integers(0, 6, size=(60, 1))
tokens, y_of_steps = steps.integers(1, 9, size=(60, 5)) * is_step, steps.normal(size=(60, 5, 1))
"""
# Arguments of `trained_on_steps` whose loss is a mean over all values.
EXACT_IN_PARTS = (
    "mask_zero=True, of_steps=False",
    "mask_zero=False, of_steps=True, sample_weight=is_step.astype(float)",
)
