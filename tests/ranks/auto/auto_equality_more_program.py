"""Programs of tests/auto_programs beside those of auto_equality_program.py, which would take too long in one world.

Run by `mpiexec -n N python auto_equality_more_program.py FOLDER`.
"""

from __future__ import annotations

from auto_equality_names import MORE
from auto_equality_program import main

if __name__ == "__main__":
    main(MORE, with_samples=False)
