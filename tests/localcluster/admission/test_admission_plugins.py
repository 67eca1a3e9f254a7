"""Admission plugins: limit ranges, quotas, priorities, storage classes, node taints."""

import random
from typing import Any

import pytest

from localcluster.apiserver.served import pod
from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects, publish_server
from stowplan.localcluster.quota import total_usage
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import API_SERVER, component


@pytest.fixture
def store() -> Store:
    made = Store(HandClock(), random.Random(1), admission=ClusterAdmission())
    create_bootstrap_objects(made)
    return made


def refusal(store: Store, resource: c.Resource, body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        store.create(resource, body, "default" if resource.namespaced else "")
    return caught.value


def using(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> Any:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(name, spec={"containers": [{"name": "c", "image": "i", "resources": resources}]})


def limit_range(**item: Any) -> Any:
    return {"metadata": {"name": "lr"}, "spec": {"limits": [{"type": "Container", **item}]}}


def quota(hard: dict[str, str], **spec: Any) -> Any:
    return {"metadata": {"name": "rq"}, "spec": {"hard": hard, **spec}}


def known(store: Store, body: Any) -> None:
    """A quota whose usage has been calculated, as the quota controller does."""
    made = store.create(c.RESOURCE_QUOTAS, body, "default")
    hard = made["spec"]["hard"]
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    store.update(c.RESOURCE_QUOTAS, {**made, "status": status}, subresource="status")


def used(store: Store) -> Any:
    return store.get(c.RESOURCE_QUOTAS, "default", "rq")["status"]["used"]


def test_a_limit_range_fills_in_what_containers_leave_open_and_says_so(store: Store) -> None:
    store.create(
        c.LIMIT_RANGES, limit_range(default={"cpu": "500m"}, defaultRequest={"cpu": "100m"}), "default"
    )
    made = store.create(c.PODS, pod("p"), "default")
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m"},
        "limits": {"cpu": "500m"},
    }
    name = made["spec"]["containers"][0]["name"]
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        f"LimitRanger plugin set: cpu request for container {name}; cpu limit for container {name}"
    )
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "requests", "limits", "text"),
    [
        (
            {"min": {"cpu": "50m"}},
            {"cpu": "10m"},
            {},
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        ({"max": {"cpu": "2"}}, {}, {"cpu": "3"}, "maximum cpu usage per Container is 2, but limit is 3"),
        (
            {"maxLimitRequestRatio": {"cpu": "8"}},
            {"cpu": "60m"},
            {"cpu": "1"},
            "cpu max limit to request ratio per Container is 8, but provided ratio is 16.666667",
        ),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {},
            {},
            "memory max limit to request ratio per Container is 2, "
            "but no request is specified or request is 0",
        ),
        (
            {"type": "Pod", "min": {"memory": "1Gi"}},
            {"cpu": "1"},
            {},
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {"cpu": "1"},
            {"cpu": "2"},
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
    ],
)
def test_what_a_limit_range_does_not_allow_is_refused(
    store: Store, item: Any, requests: dict[str, str], limits: dict[str, str], text: str
) -> None:
    store.create(c.LIMIT_RANGES, limit_range(**item), "default")
    error = refusal(store, c.PODS, using("p", requests, limits))
    assert (error.code, error.message) == (403, f'pods "p" is forbidden: {text}')


def test_a_quota_is_charged_and_refuses_what_is_beyond_it(store: Store) -> None:
    known(store, quota({"pods": "2", "requests.cpu": "1"}))
    store.create(c.PODS, using("a", {"cpu": "600m"}), "default")
    assert used(store) == {"pods": "1", "requests.cpu": "600m"}
    error = refusal(store, c.PODS, using("b", {"cpu": "500m"}))
    assert error.message == (
        'pods "b" is forbidden: exceeded quota: rq, requested: requests.cpu=500m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    )
    error = refusal(store, c.PODS, using("c"))
    assert error.message.endswith("failed quota: rq: must specify requests.cpu for: c")
    assert used(store) == {"pods": "1", "requests.cpu": "600m"}


def test_the_first_quota_by_name_refuses_and_none_is_charged(store: Store) -> None:
    """The API server checks quotas in the order of their names, and charges all or none."""
    for name, pods in (("b", "0"), ("a", "0"), ("0-roomy", "5")):
        known(store, {"metadata": {"name": name}, "spec": {"hard": {"pods": pods}}})
    assert "exceeded quota: a, " in refusal(store, c.PODS, pod("p")).message
    assert store.get(c.RESOURCE_QUOTAS, "default", "0-roomy")["status"]["used"] == {"pods": "0"}


def test_what_is_not_written_is_not_charged(store: Store) -> None:
    known(store, quota({"count/configmaps": "5"}))
    body = {"metadata": {"name": "m"}}
    store.create(c.CONFIG_MAPS, body, "default", by=API_SERVER._replace(dry_run=True))
    assert used(store) == {"count/configmaps": "0"}
    store.create(c.CONFIG_MAPS, body, "default")
    assert refusal(store, c.CONFIG_MAPS, body).code == 409
    assert used(store) == {"count/configmaps": "1"}


def test_a_quota_without_usage_admits_nothing_it_counts(store: Store) -> None:
    made = store.create(c.RESOURCE_QUOTAS, quota({"pods": "1"}), "default")
    store.create(c.PODS, pod("free"), "default")
    store.update(c.RESOURCE_QUOTAS, {**made, "status": {"hard": {"pods": "1"}}}, subresource="status")
    error = refusal(store, c.PODS, pod("p"))
    assert error.message == 'pods "p" is forbidden: status unknown for quota: rq, resources: pods'


@pytest.mark.parametrize(
    ("spec", "body", "counted"),
    [
        ({"scopes": ["BestEffort"]}, using("p"), True),
        ({"scopes": ["BestEffort"]}, using("p", {"cpu": "1"}), False),
        ({"scopes": ["NotTerminating"]}, using("p"), True),
        ({"scopes": ["Terminating"]}, using("p"), False),
        ({"scopes": ["BestEffort", "NotTerminating"]}, using("p"), True),
        ({"scopes": ["BestEffort", "Terminating"]}, using("p"), False),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}},
            pod("p", spec={"priorityClassName": "system-node-critical"}),
            True,
        ),
        (
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["other"]}]}},
            pod("p", spec={"priorityClassName": "system-node-critical"}),
            False,
        ),
    ],
)  # fmt: skip
def test_scopes_decide_which_pods_a_quota_counts(store: Store, spec: Any, body: Any, counted: bool) -> None:
    known(store, quota({"pods": "5"}, **spec))
    store.create(c.PODS, body, "default")
    assert used(store) == {"pods": "1" if counted else "0"}


@pytest.mark.parametrize(
    ("resource", "spec", "hard"),
    [
        (
            c.SERVICES,
            {"type": "NodePort", "ports": [{"port": 1}]},
            {"services": "1", "services.nodeports": "1"},
        ),
        (c.SERVICES, {"type": "LoadBalancer", "ports": [{"port": 1}]}, {"services.loadbalancers": "1"}),
        (
            c.PERSISTENT_VOLUME_CLAIMS,
            {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gold",
                "resources": {"requests": {"storage": "2Gi"}},
            },
            {
                "persistentvolumeclaims": "1",
                "requests.storage": "2Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            },
        ),
    ],
)
def test_kinds_count_for_what_they_use(store: Store, resource: c.Resource, spec: Any, hard: Any) -> None:
    known(store, quota(hard))
    store.create(resource, {"metadata": {"name": "a"}, "spec": spec}, "default")
    assert used(store) == hard
    recalculated = total_usage(
        store.get(c.RESOURCE_QUOTAS, "default", "rq"),
        [c.PODS, c.SERVICES, c.PERSISTENT_VOLUME_CLAIMS],
        lambda kind: store.within(kind, "default"),
        0.0,
    )
    assert recalculated == hard
    assert "exceeded quota" in refusal(store, resource, {"metadata": {"name": "b"}, "spec": spec}).message


def test_a_new_node_takes_no_pods_until_it_has_been_seen_to_be_ready(store: Store) -> None:
    made = store.create(c.NODES, {"metadata": {"name": "n"}})
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    own = store.create(c.NODES, {"metadata": {"name": "o"}, "status": ready}, by=component("kubelet"))
    assert "taints" not in own["spec"], "a simulated node is ready when it registers"
    without = Store(
        HandClock(), random.Random(1), admission=ClusterAdmission(disabled=["TaintNodesByCondition"])
    )
    assert "taints" not in without.create(c.NODES, {"metadata": {"name": "n"}})["spec"]


def test_system_priority_classes_stay_and_unknown_runtime_classes_are_refused(store: Store) -> None:
    with pytest.raises(ApiError) as caught:
        store.delete(c.PRIORITY_CLASSES, "", "system-node-critical")
    assert caught.value.message.endswith("this is a system priority class and cannot be deleted")
    error = refusal(store, c.PODS, pod("p", spec={"runtimeClassName": "none"}))
    assert error.message == 'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found'


def claim(store: Store, name: str = "data") -> Any:
    made = store.create(
        c.PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        "default",
    )
    return store.update(
        c.PERSISTENT_VOLUME_CLAIMS,
        {**made, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
        subresource="status",
    )


@pytest.mark.parametrize(
    ("expandable", "storage", "text"),
    [
        (True, "2Gi", ""),
        (False, "2Gi", "must support resize"),
        (True, "512Mi", "field can not be less than"),
    ],
)
def test_claims_grow_if_their_class_allows_it_and_never_shrink(
    store: Store, expandable: bool, storage: str, text: str
) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "standard", "annotations": annotations}
    store.create(
        c.STORAGE_CLASSES,
        {"metadata": metadata, "provisioner": "p", "allowVolumeExpansion": expandable},
    )
    assert claim(store)["spec"]["storageClassName"] == "standard"
    change = {"spec": {"resources": {"requests": {"storage": storage}}}}
    if not text:
        after = store.patch(c.PERSISTENT_VOLUME_CLAIMS, "default", "data", change, PatchType.MERGE)
        assert after["spec"]["resources"]["requests"]["storage"] == storage
        return
    with pytest.raises(ApiError) as caught:
        store.patch(c.PERSISTENT_VOLUME_CLAIMS, "default", "data", change, PatchType.MERGE)
    assert text in caught.value.message


def test_the_api_server_is_a_service_that_follows_its_port(store: Store) -> None:
    publish_server(store, "127.0.0.1", 6443)
    first = store.get(c.SERVICES, "default", "kubernetes")
    assert first["spec"]["clusterIP"] == "10.96.0.1"
    publish_server(store, "127.0.0.1", 7443)
    assert store.get(c.SERVICES, "default", "kubernetes")["spec"]["ports"][0]["targetPort"] == 7443
    assert store.get(c.ENDPOINTS, "default", "kubernetes")["subsets"][0]["ports"][0]["port"] == 7443


def test_a_stateful_set_may_mount_its_own_claims(store: Store) -> None:
    mounted = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [mounted]}}
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    spec = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template}
    body = {"metadata": {"name": "db"}, "spec": {**spec, "volumeClaimTemplates": claims}}
    store.create(c.STATEFUL_SETS, body, "default")
    error = refusal(store, c.STATEFUL_SETS, {"metadata": {"name": "other"}, "spec": spec})
    assert 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"' in error.message
