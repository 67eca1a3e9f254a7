"""The benchmark of the store."""

from typing import Any

import pytest

from stowplan.api.catalogue import PODS
from stowplan.lab.bench.servers.store import measure_store
from stowplan.localcluster.store import ADDED, DELETED, MODIFIED, Store, StoreChange, Watcher

PODS_MEASURED = 20


def test_every_pod_is_created_bound_started_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[Store] = []
    changes: list[StoreChange] = []
    original = Store.__init__

    def watched(self: Store, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        stores.append(self)
        self.watch(PODS, changes.append)

    monkeypatch.setattr(Store, "__init__", watched)
    figures = measure_store(pods=PODS_MEASURED, nodes=3)
    assert min(figures.create_us, figures.bind_us, figures.run_us, figures.delete_us) > 0
    assert stores[0].count(PODS) == 0
    by_pod: dict[str, list[StoreChange]] = {}
    for change in changes:
        by_pod.setdefault(change.object["metadata"]["name"], []).append(change)
    assert len(by_pod) == PODS_MEASURED
    for seen in by_pod.values():
        created, bound, started, *_, deleted = seen
        assert (created.type, deleted.type) == (ADDED, DELETED)
        assert {change.type for change in seen[1:-1]} == {MODIFIED}
        assert "nodeName" not in created.object["spec"]
        assert bound.object["spec"]["nodeName"]
        assert started.object["status"]["phase"] == "Running"
    assert len({seen[1].object["spec"]["nodeName"] for seen in by_pod.values()}) == 3


def test_a_store_that_loses_a_change_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Watcher.deliver

    def forgetful(self: Watcher, change: StoreChange) -> None:
        if change.version % 7:
            original(self, change)

    monkeypatch.setattr(Watcher, "deliver", forgetful)
    with pytest.raises(RuntimeError, match="changes of 20 pods to be seen, got"):
        measure_store(pods=PODS_MEASURED, nodes=3)
