"""What ranks exchange data by: one interface, and what implements it for each library.

| module | holds |
|---|---|
| `library` | the interface that the engine asks, and all libraries of a rank as one |
| `meeting_point` | the address at which ranks find each other, and the variables that say it |
| `sockets` | this process's TCP connections, to end those of a blocked collective |
| `site` | the libraries that a site adds |
| `patience` | a wait for ranks, which reports a stall |
| `rendezvous` | barriers of all ranks, at which rank 0 names a port |
| `jax_processes` | jax.distributed: its start, and its release |
| `jax_ends` | how a cell has ended on each rank, told by JAX's service |
| `jax_gloo` | the connections of JAX's gloo |
| `jax_service` | the coordination services that rank 0 keeps until all have left |
| `tensorflow_collectives` | those of TensorFlow's own strategies: their release |
| `torch_groups` | torch.distributed: its start, and its release |
| `torch_counts`, `torch_frames` | how many of its collectives this rank has entered, and in which one it is |
| `torch_stalls` | who waits for whom in one |

Horovod's implementation is `engine/horovod_runtime`. Nothing here imports a framework. Runs on: every rank.
"""
