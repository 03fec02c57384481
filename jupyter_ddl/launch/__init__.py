"""How an MPI job gets onto hosts: which hosts, what is found there, and the command that starts the ranks on them.

| module | what is in it |
|---|---|
| `address` | the address and the network by which other hosts reach this one |
| `call_back` | whether other hosts can connect to this one |
| `clock_pings` | the clock of another host, compared with this one's |
| `container` | the command that runs a rank in an image |
| `forwarded` | the variables that ranks on other hosts get |
| `host_list` | hosts and slots, as `-H` and a hostfile write them |
| `image_agent` | the program that starts MPI's daemons in an image on other hosts |
| `image_mpi` | the MPI of an image, compared with the host's |
| `jsrun` | jsrun's options and resource files, in a job of LSF |
| `mpi_job` | mpiexec's command and environment for a place |
| `on_host` | the command that runs a script on a host |
| `place` | where ranks are: this host, or hosts and their slots |
| `place_options` | where ranks go, from a start's options |
| `profiles` | places that a site or a user named in files |
| `remote_files` | brings ranks' files from a host that shares no folder |
| `remote_processes` | the states of processes on other hosts |
| `remote_survey` | the program that looks at a host, and prints what it found |
| `schedulers` | Slurm: the job that this process is in, and how it is asked |
| `survey` | looks at every host before ranks start there |
| `survey_failures` | why hosts cannot run ranks, all in one error |
| `surveyed` | what was found on hosts, and whether it goes together |
"""
