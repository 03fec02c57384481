"""Runs in the notebook's process: sessions, the runs on their ranks, and the replacement of lost ranks.

| module | owns |
|---|---|
| `session`, `sending` | a cluster and how cells run on it |
| `current`, `kernel_sessions` | how a session begins; the one that the magics use |
| `cluster_lifecycle`, `cluster_transitions` | the state of a cluster, and the table of its transitions |
| `attempt`, `incarnation` | what the state holds: an attempt to bring up ranks, the current ranks |
| `bring_up`, `rebuilder`, `setup_cells`, `settling` | starting ranks, in place of lost ones too; cells wait for them |
| `exported` | where ranks start in the job of an exported notebook |
| `restored_variables` | what new ranks have again of those that were ended as idle |
| `rebuild_choice` | what becomes of lost ranks |
| `active_runs`, `run_follower`, `run_views`, `run_result` | a run from its first event to what it returns or raises |
| `release_policy`, `run_release` | when ranks are released and given up; what carries that out |
| `profiling` | a profile of the ranks, kept in the folder of the run that they execute |
| `stall_watch` | ranks that wait for others |
| `parameters` | parameters that are added to the last run |
| `executed_notebook` | the notebook that nbconvert, papermill and the like execute |
| `run_origin` | the notebook, cell and commit that a run comes from |
| `wall_time` | when the batch job of the ranks is over, and the warnings of it |
| `idle_count` | when the ranks will be ended as idle |
| `lost_ranks`, `checkpoint_offer` | what is known of lost ranks, and of their training |
| `horovod_schedule` | when Horovod runs |
| `observers`, `cluster_state` | what is notified of changes, and what a panel shows of a cluster |
| `magics`, `hub_link` | `%ddl` and `%%distributed`; the connection to the Jupyter server |
| `joblib_backend` | `with jupyter_ddl.parallel_backend():` |

Loads no TensorFlow, Keras, Horovod, MPI or NVML.
"""
