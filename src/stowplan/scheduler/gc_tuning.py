"""Keeping Python's garbage collector from getting in the way of a scheduler.

A scheduler holds hundreds of thousands of objects that live long and have no cycles. With Python's usual
settings the collector goes through them again and again; that takes a tenth of all time and finds nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (200_000, 20, 50)
"""New objects before the young are looked through, and how often that leads to looking further."""


@contextmanager
def patient_collector() -> Iterator[None]:
    """For as long as the block takes, what comes is looked at less often: for starting with many objects.

    With the usual settings half of the time of loading a large cluster goes into looking through it.
    """
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def calm_collector() -> Iterator[None]:
    """For as long as the block takes: what is there now is left alone, what comes is looked at less often.

    To be entered when the cluster is known. It concerns the whole process, so it is for whoever owns that.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
