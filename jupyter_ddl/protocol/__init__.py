"""What crosses a border between two processes, or between a process and a file: one vocabulary, read by both sides.

| module | owns |
|---|---|
| `codec` | frozen dataclasses to JSON values and back |
| `events` | what happened: on the ranks, and to a run |
| `faults` | what failed, as data |
| `requests`, `transport` | what a session asks of a rank; the one border that it goes over |
| `hub_messages` | what kernels, the hub and browsers say to each other |
| `cell_options` | how a cell or a script is to run |
| `plan_texts` | the plan of `--auto`, in the same words from `--auto` and from `--explain` |
| `rank_sets`, `exit_statuses`, `settled_variables` | ranks as people write them, how they end, what they may not set |
| `old_spellings` | the old spellings of Keras and TensorFlow that work: `legacy` and `modernise` read them |
| `patch_table` | the methods of libraries that a rank replaces, and why |
| `untrusted_json` | JSON that anybody may have written |
| `rank_files` | the names of the files that belong to one rank |
| `cell_frames`, `script_pipes`, `checkpoint_folder` | files and pipes that two processes share |
| `sample_means` | the one mean of a run's samples, in tables, lists and pictures |

Imports nothing of jupyter_ddl but errors.
"""
