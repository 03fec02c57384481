"""The batch schedulers whose jobs ranks run in: what each says of a job, and how it is asked.

| module | what is in it |
|---|---|
| `node_names` | the names in a list of nodes such as `gpu[01-04]` |
| `scheduler` | what every scheduler does, and the words for it |
| `known` | the schedulers, by the kind of their places |
| `slurm` | Slurm |
| `slurm_queue` | its queue: sbatch, squeue, scancel |
"""
