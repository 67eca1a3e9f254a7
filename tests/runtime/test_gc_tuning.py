"""The garbage collector leaves loaded objects alone, and is as it was afterwards.

Each test runs in a separate process: that of the tests excludes all objects (`conftest.py`).
"""

import subprocess
import sys

import pytest

_BEGINNING = """
import gc, weakref
from stowplan.runtime.gc_tuning import (
    LOADING, THRESHOLDS, calm_collector, collect_replaced, leave_alone, patient_collector, resting_collector
)
class Cycle: pass
"""


def succeeds(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{_BEGINNING}{code}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_was_looked_at_once_is_left_alone_until_the_end() -> None:
    succeeds("""
before, callbacks = gc.get_threshold(), list(gc.callbacks)
with patient_collector():
    assert gc.get_threshold() == LOADING
    gc.collect(0)
    assert gc.get_freeze_count() > 0
    with calm_collector():
        assert gc.get_threshold() == THRESHOLDS
        frozen = gc.get_freeze_count()
        kept = [[] for _ in range(100)]
        gc.collect()
        assert gc.get_freeze_count() <= frozen
        del kept
    assert gc.get_threshold() == LOADING
assert gc.get_threshold() == before
assert gc.callbacks == callbacks
assert gc.get_freeze_count() == 0
""")


def test_cycles_that_come_and_go_while_something_is_loaded_are_freed() -> None:
    succeeds("""
with patient_collector():
    gone = []
    for _ in range(30_000):
        one = Cycle(); one.me = one
        gone.append(weakref.ref(one))
    del one
    assert sum(ref() is None for ref in gone) > 10_000
""")


def test_what_was_left_alone_is_freed_when_it_has_been_replaced() -> None:
    succeeds("""
with patient_collector():
    one = Cycle(); one.me = one; gone = weakref.ref(one)
    with calm_collector():
        del one
        gc.collect()
        assert gone() is not None
        collect_replaced()
        assert gone() is None
        assert gc.get_freeze_count() > 0
""")


def test_modules_and_listed_objects_are_not_looked_at_once() -> None:
    succeeds("""
passes = []
with patient_collector():
    gc.callbacks.append(lambda phase, info: passes.append(phase))
    with resting_collector():
        kept = [[] for _ in range(3 * LOADING[0])]
    assert gc.isenabled()
    for _ in range(10):
        kept += [[] for _ in range(LOADING[0] // 3)]
        leave_alone()
    assert not passes
    kept += [[] for _ in range(2 * LOADING[0])]
    assert passes
""")


@pytest.mark.parametrize("calm", [True, False])
def test_nothing_is_left_frozen_for_a_process_that_did_not_ask_for_it(calm: bool) -> None:
    succeeds(f"""
if {calm}:
    with calm_collector():
        assert gc.get_freeze_count() > 0
leave_alone()
with resting_collector():
    pass
assert gc.get_freeze_count() == 0
""")
