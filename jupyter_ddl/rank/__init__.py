"""Starts a rank's process: the only folder that imports both the engine and the training layers.

| module | owns |
|---|---|
| `__main__` | `python -m jupyter_ddl.rank`: a rank of a cluster |
| `script_main` | `python -m jupyter_ddl.rank.script_main`: a rank of a script |
| `start_up` | what both do alike as they start |
| `script_relay` | `python -m jupyter_ddl.rank.script_relay`: beside a script's rank on another host |
| `terminal_watch` | beside that: whether the terminal is gone |
| `install` | makes a rank ready for programs that were written for Horovod |
| `auto` | `jupyter_ddl.auto()`: `--auto` from within a script |

Runs on: every rank.
"""
