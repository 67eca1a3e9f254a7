"""Distribution of tests to the workers of pytest-xdist.

Workers get one test at a time, but tests that look at the same processes go to one worker. Half of the
workers begin with the tests that mostly wait (for processes, for leases, for a browser), the others with
those that compute: with two workers per core the cores are busy from the first minute to the last.
"""

from collections import deque
from typing import Any

from xdist.scheduler import LoadScopeScheduling

TOGETHER = (
    "tests/server/process/test_recorded_",
    "tests/server/process/test_outages.py",
    "tests/localcluster/controllers/test_recorded_stories.py",
    "tests/localcluster/apiserver/test_manifests_of_all_kinds.py",
    "tests/localcluster/up/test_corpus.py",
    "tests/localcluster/up/test_kubectl_on_up.py",
    "tests/localcluster/apiserver/test_recorded_answers.py",
    "tests/lab/bench/test_bench_growth.py",
    "tests/deploy/test_applied.py",
    "tests/explain/test_inspection.py",
    "tests/explain/test_running_scheduler.py",
    "tests/client/http/test_large_lists.py",
    "tests/deploy/test_wheel.py",
    "tests/explain/web/test_page.py",
    "tests/explain/web/test_accessibility.py",
    "tests/troubles/test_in_the_browser.py",
)
"""Tests of these files look at the same processes or runs, which start and end once for all of them."""

WAITING = (
    "tests/localcluster/apiserver/test_apiserver_command.py",
    "tests/localcluster/customresources/test_custom_resources_kubectl.py",
    "tests/localcluster/apiserver/test_kubectl.py",
    "tests/lab/bench/test_bench_explain.py",
    "tests/lab/bench/test_bench_http.py",
    "tests/lab/bench/test_bench_scheduler.py",
    "tests/lab/chaos/test_campaign.py",
    "tests/deploy/test_applied.py",
    "tests/docs/test_devices_page.py",
    "tests/docs/test_gangs_page.py",
    "tests/docs/test_up_pages.py",
    "tests/localcluster/durable/",
    "tests/explain/test_inspection.py",
    "tests/explain/test_running_scheduler.py",
    "tests/server/process/",
    "tests/deploy/",
    "tests/explain/web/",
    "tests/server/process/",
    "tests/localcluster/up/",
)
"""Tests that take much longer than the processor works for them."""

LONG = (
    "tests/lab/verify/",
    "tests/scheduler/framework/test_reuse_is_exact.py",
    "tests/scheduler/test_busy_hours.py",
    "tests/simulate/test_sweep.py",
    "tests/testing/test_plugin_checks.py",
)
"""Tests that compute for long: first, or one worker would still be at them when the others are done."""


class Distribution(LoadScopeScheduling):  # type: ignore[misc]
    """Two queues of tests, one of which each worker empties first."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._queues: tuple[deque[str], deque[str]] | None = None
        self._places: dict[Any, dict[str, int]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return next((files for files in TOGETHER if nodeid.startswith(files)), nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next_scope(node)
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        places = self._places.get(node)
        if places is None:
            collected = self.registered_collections[node]
            places = self._places[node] = {nodeid: place for place, nodeid in enumerate(collected)}
        node.send_runtest_some([places[nodeid] for nodeid, done in unit.items() if not done])

    def _next_scope(self, node: Any) -> str:
        if self._queues is None:
            waiting = deque(scope for scope in self.workqueue if scope.startswith(WAITING))
            computing = [scope for scope in self.workqueue if not scope.startswith(WAITING)]
            self._queues = waiting, deque(sorted(computing, key=lambda scope: not scope.startswith(LONG)))
        waits = self.nodes.index(node) < len(self.nodes) // 2
        for queue in self._queues if waits else reversed(self._queues):
            while queue:
                scope = queue.popleft()
                if scope in self.workqueue:
                    return scope
        # Tests of a worker that crashed.
        return str(next(iter(self.workqueue)))

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """As in the base class, but forgets units that are done: it would count them after every test."""
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        unit = self.assigned_work[node][scope]
        unit[nodeid] = True
        if all(unit.values()):
            del self.assigned_work[node][scope]
        self._reschedule(node)
