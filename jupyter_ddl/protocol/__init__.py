"""Defines what crosses a border between two processes, or a process and a file: one vocabulary for both sides.

| module | owns |
|---|---|
| `codec` | frozen dataclasses to JSON values and back |
| `events`, `rank_life` | what happened: in a run; to a rank, whatever it runs |
| `readings` | what a sample has of a rank's training, its device and its host |
| `rank_answers` | what a rank answers to a request, as events |
| `faults` | what failed, as data |
| `idle_stop` | after how long without use ranks are ended |
| `memory_limit`, `gpu_allotment` | how much memory a rank may hold; how a site gives ranks their GPUs |
| `standby` | what the processes of ranks that stand by say to each other |
| `requests`, `transport` | what is asked of a rank; the interface for it |
| `task_requests`, `value_requests` | what is asked of one with joblib's tasks; and that moves values |
| `hub_messages` | the messages between kernels, the hub and browsers |
| `cluster_summaries` | what who looks after others sees of a cluster |
| `cell_options` | the options of a cell or a script |
| `memory_options` | the words of `--memory` |
| `plan_texts` | the plan of `--auto`, in the same words for `--auto` and `--explain` |
| `number_texts` | numbers, sizes and durations as people read them, as the browser writes them too |
| `aligned_rows` | the rows of a table, aligned, as every table of a terminal or a cell is |
| `rank_sets`, `exit_statuses`, `settled_variables` | sets of ranks as text; how ranks end; what may not be set |
| `sklearn_names` | what accelerates scikit-learn; H2O4GPU's and pai4sk's classes: `cluster`, `ml`, `modernise` |
| `old_spellings` | the old spellings of Keras and TensorFlow that work: `legacy` and `modernise` read them |
| `patch_table` | the methods of libraries that a rank replaces, and why |
| `untrusted_json` | JSON from any source |
| `rank_files`, `log_marks` | the names of the files that belong to one rank; when it wrote which part of its log |
| `cell_frames`, `script_pipes`, `checkpoint_folder` | files and pipes that two processes share |
| `script_frames` | what passes between a script's terminal and the relays of its ranks on other hosts |
| `host_topology` | what a host has for the exchange: its GPUs, how they are joined, its network interfaces |
| `network_figures` | what `jupyter ddl doctor --network` measures of the ranks' exchange |
| `notebook_mode` | whether a notebook runs on ranks as a whole, as its metadata has it |
| `exported_job` | what the job of an exported notebook tells its kernel |
| `frameworks`, `xla_names` | the frameworks that ranks import first, by name; XLA's collectives |
| `parameters` | what describes a run by name, each one JSON scalar |
| `sample_means` | the one mean of a run's samples, in tables, lists and pictures |

Imports nothing of jupyter_ddl but errors.
"""
