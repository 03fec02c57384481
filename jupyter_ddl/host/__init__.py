"""Gives access to this machine: its cores, devices, memory, processes, files, MPI and network.

| module | owns |
|---|---|
| `cores`, `free_memory` | the cores and memory that a process may use; the memory that it may still take |
| `memory_watch`, `gpu_memory` | what ranks hold, with all that they start, and the one that holds too much; of GPUs |
| `rank_limits` | what each rank may hold |
| `core_claims`, `gpu_claims` | which cores and which GPUs the ranks of this host, of all users, have |
| `topology` | the GPUs, cores and memory for ranks |
| `mpi`, `mpi_library` | the MPI that runs the ranks, and its settings; its library |
| `interfaces`, `link_rates` | its network interfaces, their addresses and speeds; what its links carry |
| `held_ports` | ports that are chosen before anything listens there |
| `processor` | the name of its processor |
| `gpu_links`, `description` | how its GPUs are joined; all that a host has for the exchange between ranks |
| `preflight`, `free_threads` | what else ranks need: loopback, room on disks and in shared memory; threads |
| `free_files` | how many files processes may open; what is free of `/dev/shm` |
| `files`, `untrusted_files`, `private_folders` | whole files, locks; files and folders that others may have made |
| `run_files`, `output_chunks` | a rank's output: written into a run's folder, and sent in chunks |
| `stall_messages` | what Horovod writes there of a stall |
| `process_identity`, `process_tree` | a process's unique identity; processes that end with their parent |
| `clock`, `interrupts`, `threads` | the clock of a run; Ctrl-C between our own steps; threads that report failure |
| `git_commit` | the commit of a folder's files |
| `lost_after` | for how long a host may stay away |
| `patching`, `import_hooks` | the register of what we replace in libraries; the one import finder |
| `task_arrays` | the large arrays of joblib's tasks, in files of the host |
| `run_module` | `python -m` that ignores the working folder |

Imports nothing of jupyter_ddl but protocol, paths and errors. Runs on: kernel, lease, server and every rank.
"""
