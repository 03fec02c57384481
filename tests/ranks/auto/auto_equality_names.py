"""Which programs of tests/auto_programs auto_equality_program.py takes."""

from __future__ import annotations

# They are traced twice: all of these would take too long in one world.
SOME = (
    "any_size",
    "batch_normalization",
    "changed_gradients",
    "mixed_precision",
    "own_metrics",
    "train_on_batch_loop",
    "weighted_samples",
)
# What cannot be equal has a rule of its own.
OWN_RULES = ("batch_normalization", "dropout", "random_augmentation")
