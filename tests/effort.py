"""How long property tests look for a counterexample.

A run of the suite has to be short: a test gets a part of the examples that it asks for. With
STOWPLAN_LONG_TESTS set it gets many more, and other ones each time.
"""

import os

LONG = bool(os.environ.get("STOWPLAN_LONG_TESTS"))
_TIMES = 40
_SHARE = 0.6


def examples(usual: int) -> int:
    """How many examples to try, where this many are usual."""
    return usual * _TIMES if LONG else max(1, round(usual * _SHARE))
