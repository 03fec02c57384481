"""Programs of tests/auto_programs on evaluation, prediction and unusual batches, as auto_equality_program.py runs them.

Run by `mpiexec -n N python auto_equality_data_program.py FOLDER`.
"""

from __future__ import annotations

from auto_equality_program import main

if __name__ == "__main__":
    main(
        ("own_test_step", "ragged_and_sparse", "rows_of_predictions", "shuffled_in_batches", "two_outputs_evaluated"),
        with_samples=False,
    )
