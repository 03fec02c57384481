"""Which programs of tests/auto_programs auto_equality_program.py takes, and auto_equality_more_program.py."""

from __future__ import annotations

# They are traced twice: all of these would take too long in one world.
SOME = (
    "any_size",
    "batch_normalization",
    "changed_gradients",
    "fit_after_load",
    "mixed_precision",
    "own_metrics",
    "own_test_step",
    "shuffled_in_batches",
    "train_on_batch_loop",
    "weighted_samples",
)
MORE = (
    "embedded_positions",
    "ragged_and_sparse",
    "rows_of_predictions",
    "summed_losses",
    "tuples_and_files",
    "two_outputs_evaluated",
    "unreduced_losses",
)
# What cannot be equal has a rule of its own.
OWN_RULES = ("batch_normalization", "dropout", "random_augmentation")
