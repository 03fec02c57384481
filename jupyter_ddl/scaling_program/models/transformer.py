"""A transformer that predicts the next token: 6 blocks of width 512 with 8 heads.

Source: Vaswani et al. 2017 (arXiv:1706.03762), table 3, the base model's widths (N 6, d_model 512, d_ff 2048, h 8) as a
decoder alone; ADAM with beta_1 0.9 and beta_2 0.98 (section 5.3), at a constant learning rate. Normalisation stands
before each part, which trains without a warm-up. Sequences come from a made language of 1,000 tokens, each of which
has 4 that may follow.

Runs on: every process that trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part, one_part

BLOCKS, WIDTH, INNER, HEADS = 6, 512, 2048, 8
TOKENS = 1000
_FOLLOWERS = 4


def _parts(keras: Any, size: int) -> list[Part]:
    layers = keras.layers
    tokens = keras.Input((size,), dtype="int32")
    # Where a token stands is learned with it: an embedding of its place, the same for all sequences.
    places = layers.Embedding(size, WIDTH)(layers.Lambda(_places, output_shape=(size,))(tokens))
    x = layers.Add()([layers.Embedding(TOKENS, WIDTH)(tokens), places])
    for _ in range(BLOCKS):
        before = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(before, before, use_causal_mask=True)])
        inner = layers.Dense(INNER, activation="relu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(WIDTH)(inner)])
    model = keras.Model(tokens, layers.Dense(TOKENS)(layers.LayerNormalization()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return one_part(model, keras.optimizers.Adam(1e-4, beta_2=0.98), loss)


def _places(tokens: Any) -> Any:
    import tensorflow as tf

    return tf.zeros_like(tokens) + tf.range(tf.shape(tokens)[1])


def _data(random: np.random.Generator, samples: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    followers = np.random.default_rng(0).integers(0, TOKENS, (TOKENS, _FOLLOWERS))
    text = np.empty((samples, size + 1), "int32")
    text[:, 0] = random.integers(0, TOKENS, samples)
    for i in range(size):
        text[:, i + 1] = followers[text[:, i], random.integers(0, _FOLLOWERS, samples)]
    return text[:, :-1], text[:, 1:]


MODEL = BenchmarkModel("transformer", "Vaswani et al. 2017, arXiv:1706.03762 (data made)", 16, 128, _parts, _data)
