"""Runs one script on ranks, from a terminal: `jupyter ddl run`.

| module | runs in | owns |
|---|---|---|
| job | terminal | the processes, from their start to their end |
| listener | terminal | output and events from the ranks, and requests to them |
| stalls | terminal | the report of ranks that wait for others, like a cell's |
| recording | terminal | the record of the run, like a cell's |
| outcome | terminal | how it ended: an exit status, and the text of a failure |
| reaper | a process of its own | ends the job if the terminal is killed |

The ranks run `jupyter_ddl.rank.script_main`; `protocol/script_pipes` has the pipes between them.
"""
