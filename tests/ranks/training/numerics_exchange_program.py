"""What test_numerics_exchange.py asserts, on every rank.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python numerics_exchange_program.py FOLDER`.
"""

# Each module adds its findings, in this order.
import numerics_exchange
import numerics_local
import numerics_sets
from numerics_harness import take_all

__all__ = ["numerics_exchange", "numerics_local", "numerics_sets"]

if __name__ == "__main__":
    take_all()
