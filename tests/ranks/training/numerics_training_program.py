"""What test_numerics_training.py asserts, on every rank.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python numerics_training_program.py FOLDER`.
"""

# Each module adds its findings, in this order.
import numerics_features
import numerics_loops
import numerics_precision
import numerics_uneven
from numerics_harness import take_all

__all__ = ["numerics_features", "numerics_loops", "numerics_precision", "numerics_uneven"]

if __name__ == "__main__":
    take_all()
