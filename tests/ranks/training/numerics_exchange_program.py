"""What test_numerics_exchange.py asserts, and the files of test_numerics_files.py, on every rank of one MPI job.

Run by `mpiexec -n N python numerics_exchange_program.py FOLDER`.
"""

# Each module adds its findings, in this order.
import numerics_exchange
import numerics_files
import numerics_local
import numerics_sets
from numerics_harness import take_all

__all__ = ["numerics_exchange", "numerics_files", "numerics_local", "numerics_sets"]

if __name__ == "__main__":
    take_all()
