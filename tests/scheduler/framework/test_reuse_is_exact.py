"""Kept results equal results from scratch after any changes of the cluster."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from effort import LONG, examples
from scheduler.framework.reuse_machine import AllPlugins
from stowplan.scheduler.plugins.interpodaffinity import counts
from stowplan.scheduler.plugins.podtopologyspread import fewnodes
from stowplan.scheduler.table.changes import ChangeLog

SHORT = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
FEWER = settings(SHORT, max_examples=examples(25))
FAR = settings(SHORT, max_examples=examples(100), stateful_step_count=80, derandomize=False)


def test_kept_results_equal_results_from_scratch() -> None:
    run_state_machine_as_test(AllPlugins, settings=FAR if LONG else SHORT)


def test_so_do_those_of_pods_taken_to_have_very_many_rare_topology_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "MANY_RARE_KEYS", 0)
    monkeypatch.setattr(fewnodes, "MANY_CONSTRAINTS", 0)
    run_state_machine_as_test(AllPlugins, settings=FAR if LONG else FEWER)


def test_a_log_that_loses_rows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that the test above can fail."""
    append = ChangeLog.append

    def lossy(self: ChangeLog, row: int) -> None:
        if row != 1:
            append(self, row)

    monkeypatch.setattr(ChangeLog, "append", lossy)
    with pytest.raises(AssertionError, match="instead of"):
        run_state_machine_as_test(
            AllPlugins, settings=settings(SHORT, max_examples=20, phases=[Phase.generate])
        )
