"""Brings the course's notebooks to a reader, and says how many readers a server carries.

| module | owns |
|---|---|
| `notebooks` | where the notebooks of the course are, and copies of them |
| `pages` | the pages of the documentation that go with them, and their links |
| `packages` | what they import and this environment lacks |
| `class_server` | what this server has, and for how many learners that suffices |
| `class_size` | what each of a class gets of it, and what its site allows each |

Runs on: a terminal.
"""
