"""Shows runs to the user: a view reads events and nothing else. Runs on: kernel.

| module | owns |
|---|---|
| `view`, `selection` | the interface of every view; which views show a run |
| `job_texts`, `jobs_table`, `wall_time` | batch jobs: in the queue, as a table, their time left |
| `line` | one stream of one rank, as a terminal would show it |
| `fold`, `merge` | lines that several ranks write alike are shown once; the order of lines |
| `transcript` | from events to entries; the cell's and the terminal's view use it |
| `page`, `outputs` | the layout under a notebook's cell, and its outputs |
| `cell`, `publish` | when that is sent, and how |
| `terminal` | the same entries, printed |
| `first_rank` | a program for one process: only its first rank's output |
| `dashboard`, `widget`, `history`, `event_batches` | how a run trains, live; the browser's side is labextension/ |
| `spread` | of many ranks, which one's sample goes to a live view at which update |
| `run_output` | what its output carries, for each front end; the mark of lines that it has in its log |
| `browser_files` | the browser's part, as it was built |
| `training_progress` | how far a training is, and how long it still takes |
| `figures`, `picture`, `metrics_table` | the same figures: in memory, as a picture, and as a table in a terminal |
| `sweep_page` | the page that compares the points of a sweep |
| `together` | several views of one run |
| `replay`, `runs_table`, `log_text`, `log_filter` | a run shown again, runs as a table, a log as lines, its filter |
| `fault`, `fault_texts` | a fault as text, wherever it is shown |
| `failure`, `stalls`, `stack_text` | its parts: what ranks raised, who waits for whom, where each is |
| `merged_profile`, `profile_text` | the profiles of ranks as one tree, with what differs; as text and files |
| `table`, `topology`, `held_ranks` | the ranks of a cluster, as text; what their hosts have; those in the debugger |
| `idle_stop` | when ranks are ended as idle, as a sentence |
| `progress` | one line while something is under way |
"""
