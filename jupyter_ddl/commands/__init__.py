"""What `%ddl` and `jupyter ddl` do alike: runs, logs and stacks."""
