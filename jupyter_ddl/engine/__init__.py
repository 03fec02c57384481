"""Runs in every rank's process: start-up, output capture, the guard around a cell, Horovod's life between cells.

Kernel-side code never imports this package.
"""
