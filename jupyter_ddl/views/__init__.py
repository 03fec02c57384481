"""What the user sees. Runs on: kernel. A view reads events and nothing else.

| module | owns |
|---|---|
| line | one rank's one stream as a terminal would show it |
| fold | what several ranks say alike is one entry |
| transcript | from events to entries; used by both views |
| page, outputs | the layout under a notebook's cell, and its outputs |
| cell, publish | when that is sent, and how |
| terminal | the same entries, printed |
| first_rank | of a program for one process, what its first rank prints |
| dashboard, widget, history | how a run trains, live in the notebook; the browser's side is labextension/ |
| figures, picture, metrics_table | the same figures as text, as a picture that stays, and in a terminal |
| together | several views of one run |
| replay, runs_table, log_text | a run shown again, runs as a table, a log as lines |
| table, failure | the ranks of a cluster, and what they raised, as text |
"""
