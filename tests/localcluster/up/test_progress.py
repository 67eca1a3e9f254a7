"""The line that says how far a cluster has come."""

import random

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import DeleteOptions
from stowplan.localcluster.store import Store
from stowplan.localcluster.up.progress import UpProgress
from stowplan.runtime.clock import RealClock


def test_pods_are_counted_by_how_far_they_have_come() -> None:
    store = Store(RealClock(), random.Random(0))
    store.create(NODES, {"metadata": {"name": "n"}})
    store.create(PODS, {"metadata": {"name": "early", "namespace": "d"}, "spec": {"nodeName": "n"}})
    progress = UpProgress(store, 0.0)
    for name in "abc":
        store.create(PODS, {"metadata": {"name": name, "namespace": "d"}, "spec": {}})
    for name in "ab":
        store.bind("d", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}})
    store.patch(PODS, "d", "a", {"status": {"phase": "Running"}}, subresource="status")
    counts = progress.counts(2.0)
    assert (counts.pending, counts.bound, counts.running, counts.done, counts.nodes) == (1, 2, 1, 0, 1)
    assert counts.per_second == 1.0
    assert counts.line() == "pods: 1 pending, 2 bound, 1 running  ·  1 pods/s  ·  1 nodes"
    store.patch(PODS, "d", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    store.delete(PODS, "d", "b", DeleteOptions(0))
    store.delete(NODES, "", "n")
    counts = progress.counts(3.0)
    assert (counts.pending, counts.bound, counts.running, counts.done, counts.nodes) == (1, 1, 0, 1, 0)
    assert ", 1 done" in counts.line()


def test_the_rate_is_that_of_the_last_seconds() -> None:
    store = Store(RealClock(), random.Random(0))
    progress = UpProgress(store, 0.0)
    store.create(PODS, {"metadata": {"name": "p", "namespace": "d"}, "spec": {}})
    store.bind("d", "p", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    assert progress.counts(1.0).per_second == 1.0
    assert progress.counts(2.0).per_second == 0.5
    for second in range(3, 20):
        last = progress.counts(float(second)).per_second
    assert last == 0.0
    progress.close()
    store.create(PODS, {"metadata": {"name": "q", "namespace": "d"}, "spec": {}})
    assert progress.counts(21.0).pending == 0
