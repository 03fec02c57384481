"""Loads models from files, Keras 2's too, ready for training on all ranks. Runs on: every rank."""
