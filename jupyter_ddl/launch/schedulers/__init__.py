"""The batch schedulers whose jobs ranks run in: what each says of a job, and how it is asked.

| module | what is in it |
|---|---|
| `node_names` | the names in a list of nodes such as `gpu[01-04]` |
| `scheduler` | what every scheduler does, and the words for it |
| `known` | the schedulers, by the kind of their places |
| `job_nodes` | the place of a job, from its nodes |
| `queue_commands` | calls the commands of a queue |
| `slurm`, `slurm_queue` | Slurm: its jobs, and its queue |
| `pbs`, `pbs_queue` | PBS: its jobs, and its queue |
| `torque` | Torque's own form of PBS |
| `lsf`, `lsf_queue` | LSF: its jobs, and its queue |
"""
