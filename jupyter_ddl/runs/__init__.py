"""Runs: one execution of a cell on some ranks.

run holds what is known of one while it goes on; folder is what stays of it on disk.
"""
