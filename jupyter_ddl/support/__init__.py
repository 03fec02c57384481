"""Makes the file that a user sends to who supports them: what is known of a run, and of the machine.

| module | what is in it |
|---|---|
| `contents` | what the file holds: each part with its name, and why it is there |
| `environment` | the variables that matter to ranks, without secrets |
| `stacks` | where the ranks of a run are now |
| `zip_file` | what is in it as a table, and the file itself |
"""
