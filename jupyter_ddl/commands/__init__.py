"""Shares between the magics and `jupyter ddl`: the arguments of a cell or a script, examples, runs and logs."""
