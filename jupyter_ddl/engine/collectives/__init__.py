"""What ranks exchange data by: one interface, and what implements it for each library.

| module | holds |
|---|---|
| `library` | the interface that the engine asks, and all libraries of a rank as one |
| `meeting_point` | the address at which ranks find each other, and the variables that say it |
| `sockets` | this process's TCP connections, to end those of a blocked collective |
| `gloo_threads` | the threads by which gloo receives: they do not interrupt those that compute |
| `gloo_works` | a wait for what gloo has begun, before a profiler of torch's ends |
| `release_thread` | the thread in which a blocked collective is ended |
| `site` | the libraries that a site adds |
| `patience` | a wait for ranks, which reports a stall |
| `rendezvous` | barriers of all ranks, at which rank 0 names a port |
| `horovod_runtime` | Horovod: its initialisations and shutdowns |
| `horovod_demand` | its start when a cell first needs it |
| `horovod_operations` | its operations in TensorFlow's graphs |
| `horovod_settings` | what the program's `hvd.init` asked for |
| `horovod_core`, `horovod_script` | its C++ core; its shutdown in a script |
| `jax_processes` | jax.distributed: its start, and its release |
| `jax_ends` | how a cell has ended on each rank, told by JAX's service |
| `jax_earlier` | what processes of JAX made that have ended: refused |
| `jax_gloo` | the connections of JAX's gloo |
| `jax_calls`, `jax_stalls` | which of its computations this rank has begun, and who waits for whom in one |
| `jax_service` | the coordination services that rank 0 keeps until all have left |
| `tensorflow_collectives` | those of TensorFlow's own strategies: their release |
| `torch_groups` | torch.distributed: its start, and its release |
| `torch_counts`, `torch_frames` | how many of its collectives this rank has entered, and in which one it is |
| `torch_stalls` | where the ranks of torch note them |
| `torch_store` | the store at which ranks make torch's process groups |
| `stalls`, `stall_rules` | when a rank looks at what all have noted, and reports; who waits for whom by it |

Nothing here imports a framework, but for what has been chosen to be. Runs on: every rank.
"""
