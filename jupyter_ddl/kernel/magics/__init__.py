"""Defines `%ddl` and `%%distributed`, and Tab and Ctrl-I in their cells. Runs on: kernel."""
