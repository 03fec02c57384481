"""Shows who looks after others which clusters run, and ends those that are idle: on a server, and in a JupyterHub.

| module | what is in it |
|---|---|
| `clusters` | what is shown of each cluster of this user, and when it was used last |
| `hub_access` | JupyterHub's API, and tokens for one server each |
| `all_servers` | the same clusters, of all servers of a JupyterHub |
| `table` | clusters as text |
| `last_run` | when the ranks of a lease that asks were used last |
| `stopping` | the end of idle ones, and its log |
"""
