"""Keeping Python's garbage collector from getting in the way of a scheduler.

A scheduler holds hundreds of thousands of objects that live long and have no cycles. With Python's usual
settings the collector goes through them again and again; that takes a tenth of all time and finds nothing.
While a large cluster is loaded it takes half of the time, and each time holds up everything else for longer.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

THRESHOLDS: Final = (200_000, 20, 50)
"""New objects before the young are looked through, and how often that leads to looking further."""

COMMAND: Final = (50_000, 20, 50)
"""The same for a process that runs a command. So much garbage is a few megabytes."""

LOADING: Final = (10_000, 1_000_000, 1_000_000)
"""Thresholds while a cluster is loaded. Collecting this many objects takes a millisecond or two."""


def collect_rarely() -> None:
    """Set the collector of a process that runs a command: most of them end before there is much garbage.

    Loading modules otherwise has the collector look through all of them several times, a fifth of the CPU
    time of a start. Commands that run for long set the collector by the block, as below.
    """
    gc.set_threshold(*COMMAND)


@contextmanager
def patient_collector() -> Iterator[None]:
    """For the duration of the block, new objects are collected once, then left alone.

    For starting, and for loading objects that live as long as the process. It affects the whole process, so
    only its main program should use it. Within, `calm_collector` is for when everything is loaded.
    """
    before = gc.get_threshold()
    gc.set_threshold(*LOADING)
    gc.callbacks.append(_leave_alone)
    try:
        yield
    finally:
        if _leave_alone in gc.callbacks:
            gc.callbacks.remove(_leave_alone)
        gc.set_threshold(*before)
        gc.unfreeze()


def _leave_alone(phase: str, info: Mapping[str, Any]) -> None:
    """Exclude the objects that survived a collection from later ones."""
    if phase == "stop":
        gc.freeze()


def leave_alone() -> None:
    """Exclude objects that were just created and stay, such as those of a list, from collection: within
    `patient_collector` they need not be scanned even once. Scanning takes a twentieth of a start."""
    if _leave_alone in gc.callbacks:
        gc.freeze()


def collect_replaced() -> None:
    """Collect all objects once, including the excluded ones.

    For when something large was replaced, as a scheduler by one with another configuration: it has cycles,
    which would not be collected otherwise. It takes a tenth of a second for 5,000 nodes with 30,000 pods.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def resting_collector() -> Iterator[None]:
    """For as long as the block takes nothing is looked at: for loading modules, which stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        leave_alone()


@contextmanager
def calm_collector() -> Iterator[None]:
    """For the duration of the block, existing objects are left alone, and new ones collected less often.

    Enter it when the cluster is known. It affects the whole process, so only its main program should use it.
    """
    before = gc.get_threshold()
    loading = _leave_alone in gc.callbacks
    if loading:
        gc.callbacks.remove(_leave_alone)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if loading:
            gc.callbacks.append(_leave_alone)
        else:
            gc.unfreeze()


def return_free_memory() -> None:
    """Give memory that is free back to the system, where the C library can (glibc).

    It keeps what was freed between blocks in use: after 300 watches that did not read, 135 MB of 254. The
    call takes a few milliseconds.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
