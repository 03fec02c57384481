"""The kernel's side of a cluster: what it is to be, how it starts, where it is found, how it ends.

spec says what is wanted, topology what the machine has; lifecycle starts and finds clusters; lease is the small process
that holds one; channel carries requests to its ranks and events back.
"""
