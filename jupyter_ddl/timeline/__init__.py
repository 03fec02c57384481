"""Says where the time of training steps goes, from the timeline that Horovod, or the profiler of torch or JAX, records.

| module | holds |
|---|---|
| `trace_file` | the file's events, read in pieces, also of a file that is cut off |
| `collectives` | the events put together: one collective of one tensor, with its phases |
| `torch_traces`, `jax_traces` | what their profilers recorded on each rank |
| `tensorflow_traces` | what TensorFlow's recorded, where the program ran it |
| `rank_calls` | the calls of all ranks put together |
| `intervals` | unions of intervals of time, and their lengths |
| `steps` | the collectives of one training step, and the step's figures |
| `tensors` | the figures of each tensor |
| `analysis` | all of these for one file |
| `text` | the analysis as a text |
| `record` | the analysis as numbers for JSON |
| `picture` | some steps as they are drawn |
| `run_files` | the files of a run that these read |
| `perfetto` | a file for Perfetto, with all ranks on one clock |

Runs on: kernel, Jupyter server, terminal.
"""
