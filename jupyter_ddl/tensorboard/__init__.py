"""Shows folders of logs, and runs, in TensorBoard, which listens on a unix socket and on no port.

| module | owns |
|---|---|
| `installed` | whether TensorBoard is there, and what is said where it is not |
| `log_folders` | which folder of logs is meant, and whether it can be read |
| `run_events` | a run's events as they come, while it runs and after it |
| `event_files` | the files that TensorBoard reads, written without TensorFlow |
| `run_scalars` | a run's events as scalars: of each rank, and of all |
| `program` | the process that serves one folder |

The Jupyter server starts the process, and passes requests on (`server/boards.py`, `server/board_pages.py`).

Runs on: a process of its own (`program`), the Jupyter server, a terminal.
"""
