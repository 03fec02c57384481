"""One script on ranks, started from a terminal: `jupyter ddl run`.

| module | runs in | owns |
|---|---|---|
| pipes | terminal and every rank | the pipes between them |
| job | terminal | the processes, from their start to their end |
| outcome | terminal | what it came to: an exit status, and what is to be told |

The ranks run `jupyter_ddl.rank.script_main`.
"""
