"""Models from files, Keras 2's too, ready to be trained on by all ranks. Runs on: every rank."""
