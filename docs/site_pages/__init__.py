"""Writes the site's pages that are made from the code, as Markdown, when Sphinx begins: docs/conf.py calls `write`.

| module | makes |
|---|---|
| `parsers` | magics and commands, of their argparse parsers |
| `variables` | the environment variables, of `jupyter_ddl/paths.py` |
| `sources`, `api`, `docstrings` | the Python API, of signatures and docstrings |
| `faults` | what faults say, of `jupyter_ddl/views/fault_texts.py` |
| `benchmarks` | which benchmarks there are, of their docstrings and the Makefile |
| `contents` | the tables of contents, of the lists in docs/index.md |
| `project` | the changelog and the page for contributors, of the repository's root |
| `writing` | all of them, as files |

Nothing here imports TensorFlow, Keras, Horovod or MPI: Python's sources are parsed and not run, but for the parsers'.
"""
