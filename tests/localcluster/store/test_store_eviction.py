"""Eviction: a deletion that asks the disruption budget first."""

from typing import Any

import pytest

from localcluster.store.stores import Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.localcluster.store import Store

OVER_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


def guarded(*, ready: bool = True, phase: str = "Running", spec: Json | None = None, **status: Any) -> Store:
    """A running pod `p` with a budget that has this status."""
    store = new_store()
    store.create(c.PODS, pod("p", node="n", labels={"app": "web"}))
    conditions = [{"type": "Ready", "status": str(ready)}]
    given = {"status": {"phase": phase, "conditions": conditions}}
    store.patch(c.PODS, "default", "p", given, subresource="status")
    selector = {"matchLabels": {"app": "web"}}
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": selector, **(spec or {})},
    }
    store.create(c.POD_DISRUPTION_BUDGETS, budget)
    counts = {"status": {"observedGeneration": 1, **status}}
    store.patch(c.POD_DISRUPTION_BUDGETS, "default", "b", counts, subresource="status")
    return store


def budget_of(store: Store) -> Json:
    found: Json = store.get(c.POD_DISRUPTION_BUDGETS, "default", "b")["status"]
    return found


def test_an_allowed_eviction_deletes_the_pod_and_charges_the_budget() -> None:
    store, log = guarded(disruptionsAllowed=2), Log()
    store.watch(c.PODS, log)
    evicted = store.evict("default", "p")
    assert log.short == ["MODIFIED p", "MODIFIED p"]
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert evicted["status"]["conditions"][1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    assert budget_of(store) == {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
    }


def test_the_last_allowed_disruption_turns_the_budgets_condition() -> None:
    store = guarded(disruptionsAllowed=1)
    store.evict("default", "p")
    (told,) = budget_of(store)["conditions"]
    assert (told["type"], told["status"], told["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_an_eviction_over_budget_is_refused_and_changes_nothing() -> None:
    store = guarded(disruptionsAllowed=0, currentHealthy=3, desiredHealthy=3)
    version = store.version
    with pytest.raises(ApiError) as caught:
        store.evict("default", "p")
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": OVER_BUDGET,
        "reason": "TooManyRequests",
        "details": {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b needs 3 healthy pods and has 3 currently",
                }
            ]
        },
        "code": 429,
    }
    assert store.version == version


def refusing(reason: str) -> list[Json]:
    return [{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "why"}]


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (
            {"currentHealthy": 4, "desiredHealthy": 3},
            "The disruption budget b does not allow evicting pods currently",
        ),
        (
            {"currentHealthy": 4, "desiredHealthy": 3, "conditions": refusing("Other")},
            "The disruption budget b does not allow evicting pods currently (Other): why",
        ),
        (
            {"conditions": refusing("SyncFailed")},
            "The disruption budget b does not allow evicting pods currently because it failed sync: why",
        ),
        (
            {"observedGeneration": 0, "disruptionsAllowed": 5},
            "The disruption budget b is still being processed by the server.",
        ),
    ],
)
def test_a_refusal_says_why(status: Json, cause: str) -> None:
    with pytest.raises(ApiError) as caught:
        guarded(**status).evict("default", "p")
    assert caught.value.message == OVER_BUDGET
    assert caught.value.details["causes"][0]["message"] == cause


def test_a_budget_that_is_being_processed_asks_to_come_back() -> None:
    with pytest.raises(ApiError) as caught:
        guarded(observedGeneration=0).evict("default", "p")
    assert caught.value.retry_after == 10


def test_a_broken_budget_is_forbidden_to_use() -> None:
    with pytest.raises(ApiError) as caught:
        guarded(disruptionsAllowed=-1).evict("default", "p")
    assert caught.value.message == (
        'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative'
    )


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_needs_no_budget(phase: str) -> None:
    store = guarded(phase=phase, disruptionsAllowed=0)
    store.evict("default", "p")
    assert "disruptedPods" not in budget_of(store)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {}),
        ({}, {"currentHealthy": 3, "desiredHealthy": 3}),
    ],
)
def test_a_pod_that_is_not_ready_may_go_if_nothing_is_lost_by_it(spec: Json, status: Json) -> None:
    store = guarded(ready=False, spec=spec, disruptionsAllowed=0, **status)
    store.evict("default", "p")
    assert "disruptedPods" not in budget_of(store)


def test_a_pod_that_is_not_ready_is_guarded_while_too_few_are() -> None:
    store = guarded(ready=False, disruptionsAllowed=0, currentHealthy=2, desiredHealthy=3)
    with pytest.raises(ApiError, match="Cannot evict pod"):
        store.evict("default", "p")


def test_two_budgets_for_one_pod_are_not_supported() -> None:
    store = guarded(disruptionsAllowed=1)
    everything = {"metadata": {"name": "b2", "namespace": "default"}, "spec": {"selector": {}}}
    store.create(c.POD_DISRUPTION_BUDGETS, everything)
    with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as caught:
        store.evict("default", "p")
    assert caught.value.code == 500


@pytest.mark.parametrize(
    ("namespace", "spec"),
    [
        ("other", {"selector": {}}),
        ("default", {"selector": {"matchLabels": {"app": "db"}}}),
        ("default", {}),
        ("default", {"selector": {"matchLabels": [1]}}),
        ("default", {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
    ],
)
def test_a_budget_for_others_does_not_matter(namespace: str, spec: Json) -> None:
    store = new_store()
    store.create(c.PODS, pod("p", node="n", labels={"app": "web"}))
    store.patch(c.PODS, "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    budget = {"metadata": {"name": "b", "namespace": namespace}, "spec": spec}
    store.create(c.POD_DISRUPTION_BUDGETS, budget)
    assert "deletionTimestamp" in store.evict("default", "p")["metadata"]


def test_an_eviction_may_say_how_much_time_and_which_pod() -> None:
    store = guarded(disruptionsAllowed=2)
    version = store.get(c.PODS, "default", "p")["metadata"]["resourceVersion"]
    with pytest.raises(ApiError, match="The object might have been deleted and then recreated"):
        store.evict("default", "p", DeleteOptions(uid="other"))
    assert budget_of(store)["disruptionsAllowed"] == 1, "the budget is charged before the pod is looked at"
    store.evict("default", "p", DeleteOptions(0, resource_version=version))
    assert store.count(c.PODS) == 0
