"""`stowplan bench http` when pods are not bound, or without a scheduler.

The runs in docs/perf.md are tested with the docs.
"""

import pytest
from click.testing import CliRunner

from stowplan.cli.lab.bench import bench
from stowplan.lab.bench.servers.http import BenchError, HttpRun, measure


def test_if_no_more_pods_are_bound_it_is_told_what_the_scheduler_says_of_one() -> None:
    most_pods_of_a_node = 110
    run = HttpRun(nodes=1, pods=most_pods_of_a_node + 5, stall_timeout=4.0)
    with pytest.raises(BenchError) as told:
        measure(run)
    text = str(told.value)
    assert text.startswith("no pod was bound for 4 s, 6 are left; of stowplan-bench-")
    assert "the scheduler says: 0/1 nodes are available: 1 Too many pods." in text
    assert "\n" not in text


@pytest.mark.parametrize(("workload", "pods"), [("preemption", 6), ("basic", 20)])
def test_a_client_that_decides_nothing_is_measured_as_a_scheduler(workload: str, pods: int) -> None:
    figures = measure(HttpRun(workload, nodes=6, pods=pods, waiting=True, bare=True))
    assert (figures.bound, figures.events) == (pods, 0)
    assert figures.pods_per_s > 0


@pytest.mark.parametrize("options", [["--bare"], ["--bare", "--waiting", "--unschedulable"]])
def test_such_a_client_needs_pods_that_wait_and_can_all_be_bound(options: list[str]) -> None:
    result = CliRunner().invoke(bench, ["http", *options])
    assert result.exit_code == 2
    assert "--bare: expected with --waiting, and without --unschedulable and --command" in result.output
