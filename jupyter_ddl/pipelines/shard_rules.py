"""Defines how a shard passes each operation of tf.data on its way to the source.

Runs on: every rank.
"""

from __future__ import annotations

from enum import Enum


class Way(Enum):
    """How a shard passes an operation, from its output to its inputs."""

    #: It does not pass: this is a source.
    STANDS = "stands"
    #: Each element is made of the input's element in the same place: the shard of the output is made of the input's.
    EXACTLY = "exactly"
    #: The parts hold together what the whole does, in another order or other groups.
    LOOSELY = "loosely"
    #: Each element of the input becomes many: it passes where the input has enough of them for all ranks.
    FANS_OUT = "fans out"
    #: As LOOSELY, if one pass over the input is enough for all ranks.
    REPEATS = "repeats"
    #: An element's result depends on those before it: the shard stays above.
    NOT = "not"


# By the names of tf.data.Dataset's methods.
WAYS = {
    "from_tensors": Way.STANDS,
    "from_tensor_slices": Way.STANDS,
    "from_sparse_tensor_slices": Way.STANDS,
    "from_generator": Way.STANDS,
    "range": Way.STANDS,
    "counter": Way.STANDS,
    "load": Way.STANDS,
    "random": Way.NOT,
    "list_files": Way.LOOSELY,
    "map": Way.EXACTLY,
    "prefetch": Way.EXACTLY,
    "cache": Way.EXACTLY,
    "snapshot": Way.EXACTLY,
    "with_options": Way.EXACTLY,
    "zip": Way.EXACTLY,
    "concatenate": Way.LOOSELY,
    "shuffle": Way.LOOSELY,
    "filter": Way.LOOSELY,
    "ignore_errors": Way.LOOSELY,
    "rejection_resample": Way.LOOSELY,
    "batch": Way.LOOSELY,
    "padded_batch": Way.LOOSELY,
    "ragged_batch": Way.LOOSELY,
    "sparse_batch": Way.LOOSELY,
    "bucket_by_sequence_length": Way.LOOSELY,
    "rebatch": Way.LOOSELY,
    "repeat": Way.REPEATS,
    "flat_map": Way.FANS_OUT,
    "interleave": Way.FANS_OUT,
    "unbatch": Way.FANS_OUT,
    "sample_from_datasets": Way.NOT,
    "choose_from_datasets": Way.NOT,
    "take": Way.NOT,
    "skip": Way.NOT,
    "shard": Way.NOT,
    "enumerate": Way.NOT,
    "window": Way.NOT,
    "group_by_window": Way.NOT,
    "scan": Way.NOT,
    "take_while": Way.NOT,
    "unique": Way.NOT,
}
# Classes of tf.data that read files, whose names they take as `filenames`.
READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
# Operations that make one element of many, and those after which it is unknown how many elements there are.
BATCHING = ("batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length", "rebatch")
# Operations that draw random numbers for the order of their elements.
RANDOM_ORDER = ("shuffle", "list_files", "sample_from_datasets", "rejection_resample", "random")
