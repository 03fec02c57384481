"""The notebook's process: sessions, the runs on their ranks, and what becomes of lost ranks.

| module | owns |
|---|---|
| `session`, `current`, `sending` | a cluster and the means to run cells on it; where a session comes from |
| `active_runs`, `run_follower`, `run_views`, `run_result` | a run from its first event to what it returns or raises |
| `release_policy`, `run_release` | when ranks are released and given up; who sees to it |
| `stall_watch` | ranks that wait for others |
| `rebuilder`, `cluster_lifecycle`, `lost_ranks`, `checkpoint_offer` | new ranks in place of lost ones |
| `horovod_schedule` | when Horovod runs |
| `observers`, `cluster_state` | who is notified of changes, and what they are shown |
| `magics`, `hub_link` | `%ddl` and `%%distributed`; the connection to the Jupyter server |

Loads no TensorFlow, Keras, Horovod, MPI or NVML.
"""
