"""Pod groups, composite pod groups and workloads: versions, defaults, priorities, what is refused, gates."""

# ruff: noqa: E501 - messages stand on one line each, as they are searched for

import random
from typing import Any

import pytest

from localcluster.apiserver.served import Served, serving
from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates, gates_with
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.objects.groupfeatures import DROPPED, GroupFeatures
from stowplan.localcluster.store import Store

GROUP = "/apis/scheduling.k8s.io"
GANG = {"gang": {"minCount": 2}}
REF = {"workloadName": "w", "templateName": "t"}
LONG = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"


def new_store(gates: FeatureGates | None = None) -> Store:
    features = GroupFeatures() if gates is None else GroupFeatures.of(gates)
    admission = ClusterAdmission(groups=features)
    store = Store(HandClock(), random.Random(1), admission=admission, catalogue=features.catalogue())
    create_bootstrap_objects(store)
    return store


def group(**spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"schedulingPolicy": GANG, **spec}}


def composite(**spec: Any) -> Json:
    policy = {"gang": {"minGroupCount": 1}}
    return {"metadata": {"name": "x"}, "spec": {"schedulingPolicy": policy, "workloadRef": REF, **spec}}


def template(name: str = "t", **more: Any) -> Json:
    return {"name": name, "schedulingPolicy": GANG, **more}


def composite_template(name: str, *children: Json, **more: Any) -> Json:
    policy = {"gang": {"minGroupCount": 1}}
    return {"name": name, "schedulingPolicy": policy, "compositePodGroupTemplates": [*children], **more}


def workload(*templates: Json, **spec: Any) -> Json:
    if templates:
        spec["podGroupTemplates"] = [*templates]
    return {"metadata": {"name": "x"}, "spec": spec}


def job(parallelism: int = 4, **scheduling: Any) -> Json:
    pods = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "template": pods, "scheduling": scheduling}
    return {"metadata": {"name": "x"}, "spec": spec}


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def causes_of(error: ApiError) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]


def test_both_versions_are_the_same_objects(api: Served) -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", **group()}
    body["metadata"] = {"name": "both"}
    created = api.ask("POST", f"{GROUP}/v1alpha3/namespaces/default/podgroups", body)
    assert created.code == 201
    assert created.body["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    assert created.body["spec"] == {
        "schedulingPolicy": GANG,
        "disruptionMode": {"single": {}},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    metadata = created.body["metadata"]
    assert metadata["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert "generation" not in metadata
    read = api.ask("GET", f"{GROUP}/v1beta1/namespaces/default/podgroups/both").body
    assert (read["apiVersion"], read["metadata"]["uid"]) == ("scheduling.k8s.io/v1beta1", metadata["uid"])


def test_discovery_has_the_recorded_storage_versions(api: Served) -> None:
    found = {
        entry["name"]: entry["storageVersionHash"]
        for entry in api.ask("GET", f"{GROUP}/v1alpha3").body["resources"]
        if "storageVersionHash" in entry
    }
    assert found == {
        "compositepodgroups": "L+dT284DGFE=",
        "podgroups": "QjOl2H5qPs0=",
        "workloads": "Fgcxusx6IUo=",
    }


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        (None, "Pending"),
        (("PodGroupInitiallyScheduled", "False", "Unschedulable"), "Unschedulable"),
        (("PodGroupInitiallyScheduled", "True", "Scheduled"), "Scheduled"),
        (("DisruptionTarget", "True", "PreemptionByScheduler"), "PreemptionByScheduler"),
    ],
)
def test_kubectl_shows_policy_workload_and_status(
    api: Served, condition: tuple[str, str, str] | None, shown: str
) -> None:
    name = f"shown-{shown.lower()}"
    path = f"{GROUP}/v1beta1/namespaces/default/podgroups"
    api.store.create(c.POD_GROUPS, {**group(workloadRef=REF), "metadata": {"name": name}}, "default")
    if condition is not None:
        type_, status, reason = condition
        written = {"type": type_, "status": status, "reason": reason, "message": ""}
        written["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        api.store.patch(
            c.POD_GROUPS, "default", name, {"status": {"conditions": [written]}}, subresource="status"
        )
    table = api.ask(
        "GET", f"{path}/{name}", Accept="application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
    ).body
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Policy", "Workload", "Status", "Age",
    ]  # fmt: skip
    assert table["rows"][0]["cells"][:4] == [name, "Gang", "w", shown]


REFUSED: list[tuple[c.Resource, Json, list[str]]] = [
    (c.POD_GROUPS, group(schedulingPolicy={}), ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
    (c.POD_GROUPS, group(schedulingPolicy={"basic": {}, **GANG}), ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`']),
    (c.POD_GROUPS, group(schedulingPolicy={"gang": {"minCount": 0}}), ["spec.schedulingPolicy.gang.minCount: Required value"]),
    (c.POD_GROUPS, group(schedulingPolicy={"gang": {"minCount": -1}}), ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"]),
    (c.POD_GROUPS, group(disruptionMode={}), ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`']),
    (c.POD_GROUPS, group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"]),
    (c.POD_GROUPS, group(schedulingConstraints={"topology": [{}]}), ["spec.schedulingConstraints.topology[0].key: Required value"]),
    (c.POD_GROUPS, group(parentCompositePodGroupName="p"), ["spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"]),
    (c.POD_GROUPS, group(workloadRef={}), ["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"]),
    (c.POD_GROUPS, group(resourceClaims=[{"name": "c"}]), ['spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`']),
    (c.POD_GROUPS, group(resourceClaims=[{"name": f"c{i}", "resourceClaimName": "x"} for i in range(5)]), ["spec.resourceClaims: Too many: 5: must have at most 4 items"]),
    (c.COMPOSITE_POD_GROUPS, composite(workloadRef=None), ["spec.workloadRef: Required value"]),
    (c.COMPOSITE_POD_GROUPS, composite(schedulingPolicy={"gang": {}}), ["spec.schedulingPolicy.gang.minGroupCount: Required value"]),
    (c.WORKLOADS, workload(), ['spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`']),
    (c.WORKLOADS, workload(*(template(f"t{i}") for i in range(9))), ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"]),
    (c.WORKLOADS, workload(template(), template("u", priority=1)), ["spec: Invalid value: null: detected multiple priority configurations"]),
    (c.WORKLOADS, workload(compositePodGroupTemplates=[composite_template("a")]), ['spec.compositePodGroupTemplates[0]: Invalid value: "a": must have at least one child PodGroupTemplate or CompositePodGroupTemplate']),
    (c.WORKLOADS, workload(compositePodGroupTemplates=[composite_template("a", podGroupTemplates=[template("a")])]), ['spec.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "a"']),
    (c.PODS, pod(schedulingGroup={}), ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
    (c.JOBS, job(schedulingPolicy={"gang": {"minCount": 5}}), ["spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 5: must not be greater than parallelism (4)"]),
    (c.JOBS, job(disruptionMode={"all": {}}), ['spec.scheduling.disruptionMode: Invalid value: "": the disruptionMode `all` is not supported with the Basic scheduling policy']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "body", "causes"), REFUSED)
def test_what_cannot_be_is_refused(resource: c.Resource, body: Json, causes: list[str]) -> None:
    with pytest.raises(ApiError) as caught:
        new_store().create(resource, body, "default")
    assert causes_of(caught.value) == causes


def test_a_tree_of_templates_has_four_levels_at_most() -> None:
    tree = composite_template("c", podGroupTemplates=[template()])
    for name in ("b", "a"):
        tree = composite_template(name, tree)
    store = new_store()
    store.create(c.WORKLOADS, workload(compositePodGroupTemplates=[tree]), "default")
    deeper = workload(compositePodGroupTemplates=[composite_template("z", tree)])
    with pytest.raises(ApiError, match="maximum template hierarchy depth is 4"):
        store.create(c.WORKLOADS, {**deeper, "metadata": {"name": "y"}}, "default")


FIXED = "Invalid value: null: field is immutable"
CHANGES: list[tuple[c.Resource, Json, Json, list[str]]] = [
    (c.POD_GROUPS, group(), {"schedulingPolicy": {"gang": {"minCount": 9}}}, []),
    (c.POD_GROUPS, group(), {"schedulingPolicy": {"gang": None, "basic": {}}}, [f"spec.schedulingPolicy.basic: {FIXED}", "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set"]),
    (c.POD_GROUPS, group(), {"priority": 3, "disruptionMode": {"single": None, "all": {}}}, [f"spec.disruptionMode: {FIXED}", f"spec.priority: {FIXED}"]),
    (c.POD_GROUPS, group(workloadRef=REF), {"workloadRef": {"templateName": "u"}}, [f"spec.workloadRef: {FIXED}"]),
    (c.COMPOSITE_POD_GROUPS, composite(), {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}, [f"spec.schedulingPolicy: {FIXED}"]),
    (c.WORKLOADS, workload(template()), {"podGroupTemplates": [template(schedulingPolicy={"gang": {"minCount": 5}})]}, []),
    (c.WORKLOADS, workload(template()), {"podGroupTemplates": [template("u")]}, ["spec.podGroupTemplates[0]: Forbidden: item may not be added", "spec.podGroupTemplates: Forbidden: item may not be removed"]),
    (c.WORKLOADS, workload(template()), {"podGroupTemplates": [template(priorityClassName="p")]}, [f"spec.podGroupTemplates[0].priorityClassName: {FIXED}"]),
    (c.JOBS, job(schedulingPolicy=GANG), {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, []),
    (c.JOBS, job(schedulingPolicy=GANG), {"scheduling": {"schedulingPolicy": {"gang": None, "basic": {}}}}, ["spec.scheduling.schedulingPolicy: Invalid value: null: the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"]),
    (c.JOBS, job(), {"scheduling": None}, ["spec.scheduling: Invalid value: null: field cannot be cleared once set"]),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "body", "change", "causes"), CHANGES)
def test_little_of_a_group_can_be_changed(
    resource: c.Resource, body: Json, change: Json, causes: list[str]
) -> None:
    store = new_store()
    store.create(resource, body, "default")
    if not causes:
        store.patch(resource, "default", "x", {"spec": change}, PatchType.MERGE)
        return
    with pytest.raises(ApiError) as caught:
        store.patch(resource, "default", "x", {"spec": change}, PatchType.MERGE)
    assert causes_of(caught.value) == causes


def test_the_status_of_a_group_is_its_own_subresource() -> None:
    store = new_store()
    given = {**group(), "status": {"conditions": []}}
    assert "status" not in store.create(c.POD_GROUPS, given, "default")
    statuses = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "y"}]}
    with pytest.raises(ApiError, match="must match the name of an entry"):
        store.patch(c.POD_GROUPS, "default", "x", {"status": statuses}, subresource="status")


@pytest.mark.parametrize(
    ("resource", "made", "called"),
    [(c.POD_GROUPS, group, "pod group"), (c.COMPOSITE_POD_GROUPS, composite, "composite pod group")],
)
def test_the_priority_of_a_group_is_that_of_its_class(resource: c.Resource, made: Any, called: str) -> None:
    store = new_store()
    never = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}
    store.create(c.PRIORITY_CLASSES, never)
    spec = store.create(resource, made(priorityClassName="high"), "default")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    with pytest.raises(
        ApiError, match=f"priority set in the {called} \\(5\\) must match the priority computed"
    ):
        store.create(resource, {**made(priority=5), "metadata": {"name": "y"}}, "default")
    with pytest.raises(ApiError, match="no PriorityClass with name none was found"):
        store.create(resource, {**made(priorityClassName="none"), "metadata": {"name": "y"}}, "default")
    store.create(c.PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    spec = store.create(resource, {**made(), "metadata": {"name": "y"}}, "default")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, "usual")


def test_without_gates_nothing_of_groups_is_served() -> None:
    store = new_store(gates_with([]))
    for resource in (c.POD_GROUPS, c.WORKLOADS_V1ALPHA3, c.COMPOSITE_POD_GROUPS):
        assert resource not in store.catalogue
    assert "schedulingGroup" not in store.create(
        c.PODS, pod(schedulingGroup={"podGroupName": "g"}), "default"
    ).get("spec", {})
    with pytest.raises(
        ApiError, match=r"spec\.scheduling: Forbidden: the feature gate WorkloadWithJob is off"
    ):
        store.create(c.JOBS, job(schedulingPolicy=GANG), "default")


@pytest.mark.parametrize(
    ("spec", "gate"),
    [
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "TopologyAwareWorkloadScheduling"),
        ({"parentCompositePodGroupName": "p", "workloadRef": REF}, "CompositePodGroup"),
        ({"preemptionPolicy": "Never"}, "PodGroupPreemptionPolicy"),
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]}, "DRAWorkloadResourceClaims"),
    ],
)
def test_a_field_of_a_gate_that_is_off_is_refused(spec: Json, gate: str) -> None:
    store = new_store(gates_with(["GenericWorkload"]))
    with pytest.raises(ApiError, match=f"Forbidden: the feature gate {gate} is off"):
        store.create(c.POD_GROUPS, group(**spec), "default")
    assert "preemptionPolicy" not in store.create(c.POD_GROUPS, group(), "default")["spec"]


def test_whoever_writes_a_pod_that_loses_its_group_is_warned() -> None:
    with serving(groups=GroupFeatures.of(gates_with([]))) as served:
        body = {"apiVersion": "v1", "kind": "Pod", **pod(schedulingGroup={"podGroupName": "g"})}
        created = served.ask("POST", "/api/v1/namespaces/default/pods", body)
        assert (created.code, created.headers["Warning"]) == (201, f'299 - "{DROPPED}"')
        assert served.ask("GET", f"{GROUP}/v1beta1/podgroups").code == 404
