"""Runs one script on ranks, from a terminal: `jupyter ddl run`.

| module | runs in | owns |
|---|---|---|
| job | terminal | the processes, from their start to their end |
| launching | terminal | the commands and variables that start the ranks, here or on several hosts |
| listener | terminal | output and events from the ranks of this host, and requests to them |
| network_listener | terminal | the same of ranks on several hosts |
| host_watch | terminal | a host that stays away |
| streams | terminal | what a rank writes, as it comes by either |
| stalls | terminal | the report of ranks that wait for others, like a cell's |
| recording | terminal | the record of the run, like a cell's |
| outcome | terminal | how it ended: an exit status, and the text of a failure |
| reaper | a process of its own | ends the job if the terminal is killed |

The ranks run `jupyter_ddl.rank.script_main`; `protocol/script_pipes` has the pipes between them. On several hosts a
`jupyter_ddl.rank.script_relay` is beside each rank, and `protocol/script_frames` has what it sends.
"""
