"""Debugs the main thread of a rank by debugpy's pydevd, in the rank's own process, over a socket pair.

| module | holds |
|---|---|
| `rank_debugger` | what a page asks of the debugger, its lease, and whether the rank is held |
| `page_events` | what pydevd reports, for pages that ask for what is new |
| `pydevd_link` | pydevd, and the messages to and from it |
| `cell_sources` | the files by which pydevd and JupyterLab know cells |
| `local_answers` | what is answered without pydevd |

Runs on: every rank. pydevd does nothing before a page asks for it.
"""
