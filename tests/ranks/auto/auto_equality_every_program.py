"""All programs of tests/auto_programs, as auto_equality_program.py takes some of them.

Run by `mpiexec -n N python auto_equality_every_program.py FOLDER`.
"""

from __future__ import annotations

from auto_equality_program import main
from auto_programs import names_of_programs

if __name__ == "__main__":
    main(names_of_programs())
