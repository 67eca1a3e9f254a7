"""Number of examples in property tests.

A run of the suite has to be short: a test gets a part of the examples that it asks for. With
STOWPLAN_LONG_TESTS=10 it gets ten times as many as it asks for, and other ones each time (`make test-long`).
"""

import os

LONG = int(os.environ.get("STOWPLAN_LONG_TESTS", "0"))
"""Factor for the number of examples; 0 for a run of the suite."""
_SHARE = 0.6


def examples(usual: int) -> int:
    """Number of examples to try, where `usual` is the usual one."""
    return usual * LONG if LONG else max(1, round(usual * _SHARE))
