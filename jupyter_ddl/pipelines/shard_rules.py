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
    name: way
    for way, names in {
        Way.STANDS: ("from_tensors from_tensor_slices from_sparse_tensor_slices from_generator range counter load"),
        Way.NOT: (
            "random sample_from_datasets choose_from_datasets take skip shard enumerate window "
            "group_by_window scan take_while unique"
        ),
        Way.LOOSELY: (
            "list_files concatenate shuffle filter ignore_errors rejection_resample batch "
            "padded_batch ragged_batch sparse_batch bucket_by_sequence_length rebatch"
        ),
        Way.EXACTLY: "map prefetch cache snapshot with_options zip",
        Way.REPEATS: "repeat",
        Way.FANS_OUT: "flat_map interleave unbatch",
    }.items()
    for name in names.split()
}
# Classes of tf.data that read files, whose names they take as `filenames`.
READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
# Operations that make one element of many, and those after which it is unknown how many elements there are.
BATCHING = ("batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length", "rebatch")
# Operations that draw random numbers for the order of their elements.
RANDOM_ORDER = ("shuffle", "list_files", "sample_from_datasets", "rejection_resample", "random")
