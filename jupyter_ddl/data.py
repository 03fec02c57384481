"""Data pipelines on the ranks: `import jupyter_ddl.data as data`, before the pipeline is made.

`shard` gives a rank its part of a tf.data.Dataset, `cache` keeps that in this node's memory or on its disk, `prefetch`
makes it ahead, and `advise` measures what would make it faster (docs/data.md). `parts` gives `fit` a rank's part of
each batch of arrays.

Runs on: every rank.
"""

from jupyter_ddl.auto_distribution.shards import parts
from jupyter_ddl.pipelines.advise import Advice, advise
from jupyter_ddl.pipelines.cache import cache
from jupyter_ddl.pipelines.lineage import install
from jupyter_ddl.pipelines.load_once import load_once, make_once
from jupyter_ddl.pipelines.prefetch import prefetch
from jupyter_ddl.pipelines.shard import Sharded, shard, shard_with_note

__all__ = [
    "Advice",
    "Sharded",
    "advise",
    "cache",
    "load_once",
    "make_once",
    "parts",
    "prefetch",
    "shard",
    "shard_with_note",
]

# Datasets that are made from now on remember how, so that they can be made again for one rank.
install()
