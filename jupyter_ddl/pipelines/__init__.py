"""Data pipelines of tf.data on the ranks: who reads what, what is kept where, and what would make it faster.

| module | owns |
|---|---|
| `recipe` | datasets that remember how they were made, so that they can be made again in another way |
| `ways` | what each operation of tf.data does to a shard that is to go below it |
| `shard`, `sharding` | one rank's part of a pipeline |
| `cache`, `places`, `folders` | a rank's elements kept in memory or on this node; where is room; who clears it away |
| `once` | arrays that one rank of a host loads and all share |
| `iterators` | iterators that end where nobody waits for it |
| `prefetch` | the next batches made while the model trains |
| `advise`, `trials`, `changes`, `kept` | what would make a pipeline faster, found by making it so |
| `stopwatch`, `looks` | how fast pipelines and models run; what can be told of a dataset without running it |

Users import it as `jupyter_ddl.data`. Runs on: every rank; nothing here is a collective.
"""
