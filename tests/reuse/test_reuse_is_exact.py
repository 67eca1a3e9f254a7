"""Kept results equal results from scratch, whatever happens to the cluster in between."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from reuse.machine import ReuseMachine
from stowplan.cluster.changes import ChangeLog

COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
SHORT = settings(COMMON, max_examples=100, stateful_step_count=40, derandomize=True, database=None)
LONG = settings(COMMON, max_examples=4000, stateful_step_count=80)


def test_kept_results_equal_results_from_scratch() -> None:
    """With STOWPLAN_LONG_TESTS set, it looks much longer and at other clusters each time."""
    run_state_machine_as_test(ReuseMachine, settings=LONG if os.environ.get("STOWPLAN_LONG_TESTS") else SHORT)


def test_a_log_that_loses_rows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that the test above can fail."""
    appended = 0
    append = ChangeLog.append

    def lossy(self: ChangeLog, row: int) -> None:
        nonlocal appended
        appended += 1
        if appended % 5:
            append(self, row)

    monkeypatch.setattr(ChangeLog, "append", lossy)
    with pytest.raises(AssertionError, match="instead of"):
        run_state_machine_as_test(
            ReuseMachine, settings=settings(SHORT, max_examples=20, phases=[Phase.generate])
        )
