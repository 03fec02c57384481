"""Says why batches cannot be divided, and what to write instead.

Runs on: every rank.
"""

from __future__ import annotations

RULE = "With --batch global each part of a batch is divided among the ranks by its first dimension, the samples."
REMEDY = (
    "Use --batch per-rank, with which a rank keeps its batches whole; or keep what is no batch (a mask for all "
    "samples, an adjacency matrix, a scalar) in the model."
)
NO_BATCH = (
    f"{RULE} Received: a batch whose parts have other numbers of rows than each other. {REMEDY} The numbers of rows:"
)
# For a model that fails on parts of batches.
OF_PARTS = (
    "With --batch global each rank has a part of each batch, by the first dimension. If that is not the samples, or a "
    "part is no batch (an adjacency matrix, pairs of anchors and positives), use --batch per-rank, with which a rank "
    "keeps its batches whole."
)
TOO_SMALL = (
    "Each batch but the last must have at least one sample for each rank. Make the batches larger, use --batch "
    "per-rank, or fewer ranks."
)
