"""How long property tests look for a counterexample.

A run of the suite has to be short. With STOWPLAN_LONG_TESTS set, the tests that ask here try many more
examples, and other ones each time.
"""

import os

LONG = bool(os.environ.get("STOWPLAN_LONG_TESTS"))
_TIMES = 40


def examples(usual: int) -> int:
    """How many examples to try, where a short run tries this many."""
    return usual * _TIMES if LONG else usual
