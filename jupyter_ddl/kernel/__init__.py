"""The notebook's process: sessions, the runs on their ranks, and what becomes of lost ranks.

| module | owns |
|---|---|
| `session`, `current`, `sending` | a cluster and the means to run cells on it; where a session comes from |
| `cluster_lifecycle`, `cluster_transitions` | the state of a cluster, and the table of what changes it |
| `attempt`, `incarnation` | what the state holds: an attempt to bring up ranks, the ranks that there are |
| `bring_up`, `rebuilder`, `setup_cells`, `settling` | starting ranks, in place of lost ones too; cells wait for them |
| `active_runs`, `run_follower`, `run_views`, `run_result` | a run from its first event to what it returns or raises |
| `release_policy`, `run_release` | when ranks are released and given up; what carries that out |
| `stall_watch` | ranks that wait for others |
| `lost_ranks`, `checkpoint_offer` | what is known of lost ranks, and of their training |
| `horovod_schedule` | when Horovod runs |
| `observers`, `cluster_state` | who is notified of changes, and what they are shown |
| `magics`, `hub_link` | `%ddl` and `%%distributed`; the connection to the Jupyter server |

Loads no TensorFlow, Keras, Horovod, MPI or NVML.
"""
