"""Makes a batch job of a notebook, and runs it there.

| module | owns |
|---|---|
| `notebook` | what a notebook says of its ranks and parameters; the copy that the job runs |
| `submit_lines` | the job that its own cells ask for |
| `parameters` | parameters as they are written, and the points of a sweep |
| `order` | the folder of an export, and what its job is to run |
| `writing`, `asking` | making the folder of an export; from what a command line or the panel asks for |
| `kubernetes` | the job as objects of Kubernetes |
| `scripts` | the job's script, for each scheduler and without one |
| `execution`, `runner`, `cell_teller` | running the copy, in the job, and printing what its cells show |
| `results` | what came of each point, and the page that compares them |

Runs on: a terminal's process, or the Jupyter server's; `execution` in the job.
"""
