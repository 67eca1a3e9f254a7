"""SchedulingGates: pods with gates are held back before the queue."""

from stowplan.scheduler.framework.status import unresolvable
from stowplan.scheduler.plugins.schedulinggates import SchedulingGates
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import pod


def test_a_pod_with_scheduling_gates_is_held_back_with_their_names() -> None:
    table = ClusterTable()
    rule = SchedulingGates(None, None)  # type: ignore[arg-type]
    held = rule.pre_enqueue(table.info(pod("p").gates("a.io/one", "a.io/two").obj()))
    assert held == unresolvable("waiting for scheduling gates: [a.io/one a.io/two]")
    assert rule.pre_enqueue(table.info(pod("p").obj())) is None
