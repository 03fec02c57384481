"""This rank's part of each batch that one process would make.

| module | owns |
|---|---|
| `place` | which part of how many samples is whose |
| `order`, `rows` | arrays: in which order, and only this rank's rows are ever read |
| `batches`, `slices` | everything else: the batch is made, and this rank's part of it kept |
| `adapter` | what Keras trains on in place of the user's data: a part of each batch |
| `shares` | what Keras evaluates: every so many whole batches |
| `every_nth`, `generators` | PyDatasets and generators of which a rank takes every so many batches |
| `likeness`, `contents`, `sources` | all ranks make the same batches, hold the same PyDataset, shard the same dataset |
| `shared_draws` | from what a PyDataset draws: what all ranks share, and a rank's own |

Runs on: every rank.
"""

from jupyter_ddl.auto_distribution.shards.adapter import Parts, parts

__all__ = ["Parts", "parts"]
