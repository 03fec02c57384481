"""What test_numerics_*.py assert, but for the equality of plain training: every finding in one MPI job a world size.

Run by `mpiexec -n N python numerics_program.py FOLDER`.
"""

# Each module adds its findings, in this order.
import numerics_exchange
import numerics_features
import numerics_files
import numerics_local
import numerics_loops
import numerics_precision
import numerics_sets
import numerics_uneven
from numerics_harness import take_all

__all__ = [
    "numerics_exchange",
    "numerics_features",
    "numerics_files",
    "numerics_local",
    "numerics_loops",
    "numerics_precision",
    "numerics_sets",
    "numerics_uneven",
]

if __name__ == "__main__":
    take_all()
