"""`stowplan bench http` when pods are not bound; the runs in docs/perf.md are tested with the docs."""

import pytest

from stowplan.bench.http import BenchError, HttpRun, measure


def test_if_no_more_pods_are_bound_it_is_told_what_the_scheduler_says_of_one() -> None:
    most_pods_of_a_node = 110
    run = HttpRun(nodes=1, pods=most_pods_of_a_node + 5, stall_timeout=4.0)
    with pytest.raises(BenchError) as told:
        measure(run)
    text = str(told.value)
    assert text.startswith("no pod was bound for 4 s, 6 are left; of stowplan-bench-")
    assert "the scheduler says: 0/1 nodes are available: 1 Too many pods." in text
    assert "\n" not in text
