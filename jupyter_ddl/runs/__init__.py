"""Keeps runs: each is one execution of a cell or script on some ranks.

`run` holds what is known of one while it lasts; `folder` is its record on disk.
"""
