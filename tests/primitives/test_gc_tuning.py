"""The garbage collector leaves alone what is loaded, and is as it was afterwards."""

import gc
import subprocess
import sys

from stowplan.runtime.gc_tuning import (
    LOADING,
    THRESHOLDS,
    calm_collector,
    leave_alone,
    patient_collector,
    resting_collector,
)


def test_what_was_looked_at_once_is_left_alone_until_the_end() -> None:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with patient_collector():
        assert gc.get_threshold() == LOADING
        gc.collect(0)
        assert gc.get_freeze_count() > 0
        with calm_collector():
            assert gc.get_threshold() == THRESHOLDS
            frozen = gc.get_freeze_count()
            kept: list[list[int]] = [[] for _ in range(100)]
            gc.collect()
            assert gc.get_freeze_count() <= frozen
            del kept
        assert gc.get_threshold() == LOADING
    assert gc.get_threshold() == before
    assert gc.callbacks == callbacks
    assert gc.get_freeze_count() == 0


def test_cycles_that_come_and_go_while_something_is_loaded_are_freed() -> None:
    """In a process of its own: it counts what is freed."""
    code = """
import gc, weakref
from stowplan.runtime.gc_tuning import patient_collector
class Cycle: pass
with patient_collector():
    gone = []
    for _ in range(30_000):
        one = Cycle(); one.me = one
        gone.append(weakref.ref(one))
    del one
    print(sum(ref() is None for ref in gone) > 10_000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_what_was_left_alone_is_freed_when_it_has_been_replaced() -> None:
    """In a process of its own: it counts what is freed."""
    code = """
import gc, weakref
from stowplan.runtime.gc_tuning import calm_collector, collect_replaced, patient_collector
class Cycle: pass
with patient_collector():
    one = Cycle(); one.me = one; gone = weakref.ref(one)
    with calm_collector():
        del one
        gc.collect()
        kept = gone() is not None
        collect_replaced()
        print(kept, gone() is None, gc.get_freeze_count() > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True True"


def test_modules_and_listed_objects_are_not_looked_at_once() -> None:
    passes: list[str] = []

    def note(phase: str, info: object) -> None:
        passes.append(phase)

    with patient_collector():
        gc.callbacks.append(note)
        try:
            with resting_collector():
                kept: list[object] = [[] for _ in range(3 * LOADING[0])]
            assert gc.isenabled()
            for _ in range(10):
                kept += [[] for _ in range(LOADING[0] // 3)]
                leave_alone()
            assert not passes
            kept += [[] for _ in range(2 * LOADING[0])]
            assert passes
        finally:
            gc.callbacks.remove(note)


def test_nothing_is_frozen_for_a_process_that_did_not_ask_for_it() -> None:
    before = gc.get_freeze_count()
    leave_alone()
    with resting_collector():
        pass
    assert gc.get_freeze_count() == before
