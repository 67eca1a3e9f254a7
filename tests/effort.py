"""How long property tests look for a counterexample.

A run of the suite has to be short: a test gets a part of the examples that it asks for. With
STOWPLAN_LONG_TESTS=10 it gets ten times as many as it asks for, and other ones each time (`make test-long`).
"""

import os

LONG = int(os.environ.get("STOWPLAN_LONG_TESTS", "0"))
"""How many times the usual examples; 0 for a run of the suite."""
_SHARE = 0.6


def examples(usual: int) -> int:
    """How many examples to try, where this many are usual."""
    return usual * LONG if LONG else max(1, round(usual * _SHARE))
