"""Defaults, resolved references and refusals before an object is kept."""

import random
from typing import Any

import pytest

from localcluster.apiserver.served import deployment, pod
from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.store import FieldManager, Store


@pytest.fixture
def store() -> Store:
    made = Store(HandClock(), random.Random(1), admission=ClusterAdmission(), fields=FieldManager())
    create_bootstrap_objects(made)
    return made


def refusal(store: Store, resource: c.Resource, body: Any, namespace: str = "default") -> ApiError:
    with pytest.raises(ApiError) as caught:
        store.create(resource, body, namespace if resource.namespaced else "")
    return caught.value


def test_a_cluster_has_its_namespaces_and_system_priorities_from_the_start(store: Store) -> None:
    names = [obj["metadata"]["name"] for obj in store.list(c.NAMESPACES).items]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert store.get(c.PRIORITY_CLASSES, "", "system-node-critical")["value"] == 2_000_001_000
    version = store.version
    create_bootstrap_objects(store)
    assert store.version == version


def test_a_pod_gets_what_it_does_not_say(store: Store) -> None:
    container = {
        "name": "main",
        "image": "app",
        "resources": {"limits": {"cpu": "1"}},
        "ports": [{"containerPort": 80}],
    }
    made = store.create(
        c.PODS, pod("p", spec={"containers": [container], "volumes": [{"name": "v"}]}), "default"
    )
    spec = made["spec"]
    expected = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "securityContext": {},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "serviceAccountName": "default",
    }
    assert spec.items() >= expected.items()
    assert spec["volumes"][0] == {"name": "v", "emptyDir": {}}
    (kept,) = spec["containers"]
    assert kept["imagePullPolicy"] == "Always"
    assert kept["resources"]["requests"] == {"cpu": "1"}
    assert kept["ports"][0]["protocol"] == "TCP"
    assert {toleration["key"] for toleration in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("r.example:5000/app", "Always"),
        ("app@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_that_may_change_are_pulled_always(store: Store, image: str, policy: str) -> None:
    made = store.create(c.PODS, pod("p", spec={"containers": [{"name": "c", "image": image}]}), "default")
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_priorities_come_from_classes(store: Store) -> None:
    store.create(c.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"})
    made = store.create(c.PODS, pod("p", spec={"priorityClassName": "high"}), "default")
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (7, "Never")
    critical = store.create(
        c.PODS, pod("q", spec={"priorityClassName": "system-cluster-critical"}), "kube-system"
    )
    assert critical["spec"]["priority"] == 2_000_000_000
    store.create(c.PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    usual = store.create(c.PODS, pod("r"), "default")["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (3, "usual")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "none"}, 'pods "p" is forbidden: no PriorityClass with name none was found'),
        (
            {"priority": 5},
            'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; '
            "priority admission controller computed 0 from the given PriorityClass name",
        ),
    ],
)
def test_priorities_are_nobodys_to_choose(store: Store, spec: dict[str, Any], text: str) -> None:
    error = refusal(store, c.PODS, pod("p", spec=spec))
    assert (error.code, error.reason, error.message) == (403, "Forbidden", text)


def test_objects_are_made_in_namespaces_that_exist(store: Store) -> None:
    error = refusal(store, c.PODS, pod("p"), "nowhere")
    assert (error.code, error.message) == (404, 'namespaces "nowhere" not found')


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"containers": []}, "spec.containers", "Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image", "Required value"),
        (
            {"containers": [{"name": "C", "image": "i"}]},
            "spec.containers[0].name",
            'Invalid value: "C": a lowercase',
        ),
        (
            {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]},
            "spec.containers[1].name",
            'Duplicate value: "c"',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "two"}}}]},
            "spec.containers[0].resources.requests[cpu]",
            'Invalid value: "two": quantities must match',
        ),
        (
            {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ]
            },
            "spec.containers[0].resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"e.example/gpu": "1"}}}]},
            "spec.containers[0].resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
            'Not found: "v"',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 70000}]}]},
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        ({"restartPolicy": "Maybe"}, "spec.restartPolicy", 'Unsupported value: "Maybe"'),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator", "Invalid value"),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints[0].maxSkew",
            "Invalid value: 0: must be greater than zero",
        ),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector", 'Invalid value: "a b"'),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            "Required value: must have at least one node selector term",
        ),
    ],
)
def test_pods_that_make_no_sense_are_refused(
    store: Store, change: dict[str, Any], field: str, text: str
) -> None:
    error = refusal(store, c.PODS, pod("p", spec=change))
    assert (error.code, error.reason) == (422, "Invalid")
    causes = {cause["field"]: cause["message"] for cause in error.details["causes"]}
    assert field in causes, causes
    assert causes[field].startswith(text), causes[field]
    assert error.message.startswith('Pod "p" is invalid: ')


@pytest.mark.parametrize(
    ("resource", "body", "field"),
    [
        (c.PODS, pod("Big"), "metadata.name"),
        (c.PODS, pod("p", labels={"a": "b c"}), "metadata.labels"),
        (c.PODS, pod("p", labels={"/": "b"}), "metadata.labels"),
        (c.PODS, pod("p", annotations={"a b": "c"}), "metadata.annotations"),
        (c.PODS, pod("p", annotations={"a": "x" * 300_000}), "metadata.annotations"),
        (c.PODS, pod("p", ownerReferences=[{"name": "x"}]), "metadata.ownerReferences.uid"),
        (c.NAMESPACES, {"metadata": {"name": "a.b"}}, "metadata.name"),
        (c.SERVICES, {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}, "metadata.name"),
        (c.SERVICES, {"metadata": {"name": "s"}, "spec": {}}, "spec.ports"),
        (c.CONFIG_MAPS, {"metadata": {"name": "m"}, "data": {"a b": "c"}}, "data[a b]"),
        (c.PRIORITY_CLASSES, {"metadata": {"name": "p"}, "value": 2**31 - 1}, "value"),
        (c.PRIORITY_CLASSES, {"metadata": {"name": "system-x"}, "value": 1}, "metadata.name"),
        (
            c.NODES,
            {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k"}]}},
            "metadata.taints[0].effect",
        ),
        (c.NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "-1"}}}, "status.capacity.cpu"),
        (c.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "p"}, "spec": {}}, "spec.accessModes"),
        (
            c.PERSISTENT_VOLUMES,
            {"metadata": {"name": "p"}, "spec": {"accessModes": ["Some"]}},
            "spec.capacity",
        ),
        (c.STORAGE_CLASSES, {"metadata": {"name": "s"}}, "provisioner"),
        (
            c.POD_DISRUPTION_BUDGETS,
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "spec",
        ),
        (
            c.LEASES,
            {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds",
        ),
        (
            c.JOBS,
            {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod()["spec"]}}},
            "spec.template.spec.restartPolicy",
        ),
        (c.DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {}}, "spec.selector"),
    ],
)
def test_objects_that_make_no_sense_are_refused(
    store: Store, resource: c.Resource, body: dict[str, Any], field: str
) -> None:
    error = refusal(store, resource, body)
    assert error.code == 422
    assert field in [cause["field"] for cause in error.details["causes"]], error.message


def test_a_selector_has_to_fit_its_template(store: Store) -> None:
    body = deployment("d")
    body["spec"]["selector"]["matchLabels"] = {"other": "x"}
    assert "`selector` does not match template `labels`" in refusal(store, c.DEPLOYMENTS, body).message


def test_workloads_get_what_they_do_not_say(store: Store) -> None:
    made = store.create(c.DEPLOYMENTS, deployment("d"), "default")["spec"]
    assert made["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (made["revisionHistoryLimit"], made["progressDeadlineSeconds"]) == (10, 600)
    assert made["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    template = {"spec": pod()["spec"] | {"restartPolicy": "Never"}}
    job = store.create(c.JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}}, "default")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert job["spec"]["selector"]["matchLabels"] == {
        "batch.kubernetes.io/controller-uid": job["metadata"]["uid"]
    }
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)


def test_a_service_gets_an_address_and_keeps_it(store: Store) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    made = store.create(c.SERVICES, body, "default")
    other = store.create(c.SERVICES, {**body, "metadata": {"name": "t"}}, "default")
    assert made["spec"]["clusterIP"].startswith("10.96.")
    assert made["spec"]["clusterIP"] != other["spec"]["clusterIP"]
    ports = [found["spec"]["ports"][0]["nodePort"] for found in (made, other)]
    assert len(set(ports)) == 2
    again = store.update(c.SERVICES, {**body, "metadata": {"name": "s", "namespace": "default"}})
    assert again["spec"] == made["spec"]
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    moved = {**again, "spec": {**again["spec"], "clusterIP": "10.96.9.9"}}
    with pytest.raises(ApiError, match="may not change once set"):
        store.update(c.SERVICES, moved)


def test_claims_get_the_default_class_and_a_guard(store: Store) -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    store.create(c.STORAGE_CLASSES, {"metadata": {"name": "fast", "annotations": marked}, "provisioner": "p"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = store.create(c.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "a"}, "spec": spec}, "default")
    assert made["spec"]["storageClassName"] == "fast"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    none = {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": ""}}
    assert store.create(c.PERSISTENT_VOLUME_CLAIMS, none, "default")["spec"]["storageClassName"] == ""


def test_text_of_a_secret_is_kept_encoded(store: Store) -> None:
    made = store.create(c.SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}}, "default")
    assert made["data"] == {"a": "Yg=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


@pytest.mark.parametrize(
    ("resource", "body", "patch", "text"),
    [
        (
            c.PODS,
            pod("x"),
            {"spec": {"nodeName": "n"}},
            "spec: Forbidden: pod updates may not change fields other",
        ),
        (
            c.PODS,
            pod("x", spec={"tolerations": [{"key": "k", "operator": "Exists"}]}),
            {"spec": {"tolerations": None}},
            "existing toleration can not be modified",
        ),
        (
            c.PODS,
            pod("x"),
            {"spec": {"schedulingGates": [{"name": "g"}]}},
            "only deletion is allowed, but found new scheduling gate 'g'",
        ),
        (
            c.DEPLOYMENTS,
            deployment("x"),
            {
                "spec": {
                    "selector": {"matchLabels": {"b": "c"}},
                    "template": {"metadata": {"labels": {"b": "c"}}},
                }
            },
            "spec.selector: Invalid value: ",
        ),
        (c.PRIORITY_CLASSES, {"metadata": {"name": "x"}, "value": 1}, {"value": 2}, "value: Forbidden"),
        (
            c.STORAGE_CLASSES,
            {"metadata": {"name": "x"}, "provisioner": "p"},
            {"provisioner": "q"},
            "field is immutable",
        ),
        (
            c.CONFIG_MAPS,
            {"metadata": {"name": "x"}, "immutable": True},
            {"data": {"a": "b"}},
            "field is immutable",
        ),
    ],
)
def test_what_is_fixed_stays(
    store: Store, resource: c.Resource, body: dict[str, Any], patch: dict[str, Any], text: str
) -> None:
    namespace = "default" if resource.namespaced else ""
    before = store.create(resource, body, namespace)
    with pytest.raises(ApiError) as caught:
        store.patch(resource, namespace, "x", patch, PatchType.MERGE)
    assert caught.value.code == 422
    assert text in caught.value.message
    assert store.get(resource, namespace, "x") == before


def test_what_may_change_of_a_pod_changes(store: Store) -> None:
    gated = pod("p", spec={"schedulingGates": [{"name": "e.example/g"}]})
    store.create(c.PODS, gated, "default")
    changes: list[dict[str, Any]] = [
        {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}},
        {"spec": {"nodeSelector": {"zone": "a"}}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"activeDeadlineSeconds": 60}},
    ]
    for change in changes:
        store.patch(c.PODS, "default", "p", change)
    spec = store.get(c.PODS, "default", "p")["spec"]
    assert spec["containers"][0]["image"] == "registry.example/app:2"
    assert "schedulingGates" not in spec


def test_an_update_that_leaves_defaults_out_changes_nothing(store: Store) -> None:
    made = store.create(c.DEPLOYMENTS, deployment("d"), "default")
    again = store.update(
        c.DEPLOYMENTS, {**deployment("d"), "metadata": {"name": "d", "namespace": "default"}}
    )
    assert again["metadata"]["generation"] == 1
    assert again == made


def test_some_namespaces_stay_whatever_anybody_wants(store: Store) -> None:
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        store.delete(c.NAMESPACES, "", "kube-system", DeleteOptions())
