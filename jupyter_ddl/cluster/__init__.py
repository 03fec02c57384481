"""Starts, finds, reaches and ends clusters, for the kernel.

planning says what is requested, as a spec, and host.topology what the machine has; starting starts and finds clusters;
lifecycle connects to one, and ends it; standby keeps ranks that take over; lease is the small process that holds one;
channel carries requests to its ranks, and events back; kept_variables saves what cells defined on ranks that end as
idle; start_claims counts a user's clusters and scripts, where a profile limits them.
"""
