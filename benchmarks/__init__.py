"""Benchmarks: each compares two sides in one run and prints one JSON line last."""
