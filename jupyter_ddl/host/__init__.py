"""This machine: its cores, devices, memory, processes, files, MPI and network, as they are.

| module | owns |
|---|---|
| `cores`, `topology` | what a process may use; the GPUs, cores and memory that ranks can have |
| `mpi` | which MPI runs the ranks, and the settings that it needs |
| `preflight` | what ranks need besides: loopback, a host name, room on disks |
| `files`, `untrusted_files`, `private_folders` | whole files for readers; files and folders that others may have made |
| `run_files`, `output_chunks` | what a rank writes, on its way into a run's folder and to whoever listens |
| `process_identity`, `process_tree` | what names a process for good; processes that end with their parent |
| `clock`, `interrupts`, `threads` | the clock of a run; Ctrl-C between our own steps; threads whose failure is known |
| `run_module` | `python -m` that does not look in the working folder |

Imports nothing of jupyter_ddl but protocol, paths and errors. Runs on: kernel, lease, server and every rank.
"""
