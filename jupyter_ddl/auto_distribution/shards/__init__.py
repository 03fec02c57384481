"""Gives a rank its part of each batch that one process would make.

| module | owns |
|---|---|
| `shard_bounds` | which part of how many samples each rank has |
| `order`, `rows` | arrays: their order, and reading only this rank's rows |
| `batches`, `slices` | all other data: the whole batch is made, and this rank's part is kept |
| `datasets`, `noted_datasets` | all of these as a tf.data.Dataset |
| `loaders` | the same for Keras on PyTorch and JAX |
| `texts` | why batches cannot be divided |
| `adapter` | the Keras data adapter of this rank's part of each batch |
| `whole_batches` | evaluation: every n-th whole batch |
| `every_nth`, `generators` | PyDatasets and generators of which a rank takes every n-th batch |
| `batch_agreement`, `agreement_callback` | all ranks make the same batches, checked in each epoch |
| `contents`, `sources` | all ranks hold the same PyDataset, and shard the same dataset |
| `shared_draws` | the random numbers of a PyDataset: what all ranks share, and a rank's own |

Runs on: every rank.
"""

from jupyter_ddl.auto_distribution.shards.adapter import Parts, parts

__all__ = ["Parts", "parts"]
