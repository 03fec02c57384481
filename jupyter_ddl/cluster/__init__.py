"""Starts, finds, reaches and ends clusters, for the kernel.

spec says what is requested, host.topology what the machine has; starting starts and finds clusters; lifecycle connects
to one, and ends it; lease is the small process that holds one; channel carries requests to its ranks and events back.
"""
