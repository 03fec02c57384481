"""What the magics and `jupyter ddl` have in common: the arguments of a cell or a script, runs and logs."""
