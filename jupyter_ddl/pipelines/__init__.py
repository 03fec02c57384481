"""Shards, caches and speeds up data pipelines of tf.data on the ranks.

| module | owns |
|---|---|
| `lineage` | datasets that remember how they were made, so that they can be made again with changes |
| `shard`, `sharding`, `shard_rules` | one rank's shard of a pipeline; what each operation does to a shard below it |
| `cache`, `storage`, `owned_folders` | a rank's elements kept in memory or on this node, and cleared away |
| `load_once` | arrays that one rank of a host loads and all share |
| `iterators` | iterators that end in threads of their own |
| `prefetch` | the next batches made while the model trains |
| `advise`, `trials`, `speedups`, `cache_placement` | measuring what would make a pipeline faster |
| `stopwatch`, `properties` | how fast pipelines and models run; what a dataset shows without being run |

Users import it as `jupyter_ddl.data`. Runs on: every rank; nothing here is a collective.
"""
