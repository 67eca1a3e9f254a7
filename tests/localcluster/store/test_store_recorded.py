"""A real kube-apiserver 1.36's answers to a real kube-scheduler, compared with the store's.

`recorded.json` holds status patches with the status before and after, one binding with its pod before and
after, and refusals with the request that met them. Uids and versions are the store's own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from localcluster.store.stores import HandClock, binding, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.api.status import ApiError, from_status
from stowplan.localcluster.store import Store

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


def without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(value) for value in data] if isinstance(data, list | tuple) else data


@pytest.mark.parametrize(
    "patch", RECORDED["patches"], ids=lambda patch: f"{patch['scenario']} {patch['pod']}"
)
def test_a_recorded_status_patch_has_the_recorded_result(patch: Json) -> None:
    store = new_store()
    created = store.create(c.PODS, pod(patch["pod"]))
    store.update(c.PODS, {**created, "status": patch["before"]}, subresource="status")
    after = store.patch(c.PODS, "default", patch["pod"], patch["patch"], subresource="status")
    assert without_nulls(after["status"]) == without_nulls(patch["after"])


def test_the_recorded_binding_has_the_recorded_result() -> None:
    recorded = RECORDED["binding"]
    before, after = recorded["before"], recorded["after"]
    zone = {"topology.kubernetes.io/zone": after["metadata"]["labels"]["topology.kubernetes.io/zone"]}
    bound_at = after["status"]["conditions"][0]["lastTransitionTime"]
    clock = HandClock(seconds_of(before["metadata"]["creationTimestamp"]))
    store = new_store(clock)
    store.create(c.NODES, {"metadata": {"name": after["spec"]["nodeName"], "labels": zone}})
    created = store.create(c.PODS, before)
    store.update(c.PODS, {**created, "status": before["status"]}, subresource="status")
    clock.time = seconds_of(bound_at)
    uid = created["metadata"]["uid"]
    request = {**recorded["binding"], "metadata": {**recorded["binding"]["metadata"], "uid": uid}}
    bound = store.bind(before["metadata"]["namespace"], before["metadata"]["name"], request)
    assert (bound["spec"], bound["status"]) == (after["spec"], after["status"])
    own = {"uid": uid, "resourceVersion": bound["metadata"]["resourceVersion"]}
    assert bound["metadata"] == {**after["metadata"], **own}


def refused(scenario: str, store: Store, request: Json | None) -> None:
    """Bring a store into the state of a scenario and make its request."""
    namespace = "obs-k"
    match scenario:
        case "g-start":
            store.get(c.LEASES, "kube-system", "kube-scheduler")
        case "d-cleanup POST":
            store.bind("obs-d", "never", request or {})
        case "d-cleanup PATCH":
            store.patch(c.PODS, "obs-d", "never", request or {}, subresource="status")
        case "k-bind-pod-terminating":
            store.create(c.PODS, pod("terminating", namespace, finalizers=["example.com/hold"]))
            store.delete(c.PODS, namespace, "terminating")
            store.bind(namespace, "terminating", binding("terminating", "node-k1"))
        case "k-bind-already-bound":
            store.create(c.PODS, pod("taken", namespace))
            store.bind(namespace, "taken", binding("taken", "node-k2"))
            store.bind(namespace, "taken", binding("taken", "node-k1"))
        case "k-bind-recreated":
            store.create(c.PODS, pod("reborn", namespace))
            store.bind(namespace, "reborn", request or {})
        case "g-steal":
            lease = store.create(
                c.LEASES, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}
            )
            store.update(c.LEASES, {**lease, "spec": {"holderIdentity": "thief"}})
            store.update(c.LEASES, {**lease, "spec": (request or {})["spec"]})
        case "g-lease-deleted":
            store.update(c.LEASES, request or {})
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(
    "refusal", RECORDED["refusals"], ids=lambda refusal: f"{refusal['scenario']} {refusal['method']}"
)
def test_a_recorded_refusal_has_the_recorded_words(refusal: Json) -> None:
    store, scenario = new_store(), refusal["scenario"]
    if scenario == "d-cleanup":
        scenario = f"{scenario} {refusal['method']}"
    with pytest.raises(ApiError) as caught:
        refused(scenario, store, refusal["request"])
    said, expected = caught.value.status(), dict(refusal["status"])
    if scenario == "k-bind-recreated":
        own = store.get(c.PODS, "obs-k", "reborn")["metadata"]["uid"]
        head, _, _ = expected["message"].rpartition(" ")
        expected["message"] = f"{head} {own}"
    assert said == expected
    assert from_status(said).status() == said
