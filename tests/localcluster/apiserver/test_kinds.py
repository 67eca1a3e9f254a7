"""Every built-in kind is served: the table of kinds, what acts on them, conversions between versions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.apiserver.served import Served, serving
from stowplan.api.catalogue import BUILT_IN, Resource
from stowplan.localcluster.apiserver.discovery import CREATE_ONLY
from stowplan.localcluster.controllers.actors import ACTORS, STORED_ONLY
from stowplan.localcluster.schema import the_schema


@pytest.fixture(scope="module")
def warned() -> Iterator[Served]:
    with serving(stored_only=STORED_ONLY) as server:
        yield server


@pytest.mark.parametrize("resource", BUILT_IN, ids=lambda resource: resource.dotted)
def test_of_every_kind_it_is_known_which_fields_it_has_and_who_acts_on_it(resource: Resource) -> None:
    assert the_schema().of_kind(resource.group, resource.version, resource.kind) is not None
    assert (resource in ACTORS) != (resource in STORED_ONLY)


def test_the_documentation_says_of_every_kind_what_acts_on_it() -> None:
    text = Path(__file__).parents[3].joinpath("docs/kinds.md").read_text("utf-8")
    rows = [
        tuple(cell.strip(" `") for cell in line.split("|")[1:4]) for line in text.splitlines() if "|" in line
    ]
    expected = {(each.kind, each.api_version, ACTORS.get(each, "nothing: stored only")) for each in BUILT_IN}
    assert {*rows[2:]} == expected


NETWORK_POLICY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny-all"},
    "spec": {"podSelector": {}},
}


def test_whoever_writes_what_is_only_stored_is_warned(warned: Served) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    warning = '299 - "stored only: nothing acts on NetworkPolicy here"'
    created = warned.ask("POST", path, NETWORK_POLICY)
    assert (created.code, created.headers["Warning"]) == (201, warning)
    patch = {"metadata": {"labels": {"a": "b"}}}
    changed = warned.ask(
        "PATCH", f"{path}/deny-all", patch, **{"Content-Type": "application/merge-patch+json"}
    )
    assert (changed.code, changed.headers["Warning"]) == (200, warning)
    assert warned.ask("GET", f"{path}/deny-all").headers.get("Warning") is None
    assert warned.ask("DELETE", f"{path}/deny-all").headers.get("Warning") is None


def test_a_kind_that_something_acts_on_is_written_without_a_warning(warned: Served) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert warned.ask("POST", "/api/v1/namespaces/default/configmaps", body).headers.get("Warning") is None


HPA: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "annotations": {"mine": "stays"}},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 8,
        "metrics": [
            {
                "type": "Pods",
                "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "5"}},
            },
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
            },
        ],
        "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
    },
}


def test_an_autoscaler_keeps_in_annotations_of_v1_what_only_v2_knows(warned: Served) -> None:
    newer = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    older = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    assert warned.ask("POST", newer, HPA).code == 201
    stored = warned.ask("GET", f"{newer}/web").body
    shown = warned.ask("GET", f"{older}/web").body
    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 60
    assert not {"metrics", "behavior"} & shown["spec"].keys()
    annotations = shown["metadata"]["annotations"]
    assert annotations["mine"] == "stays"
    kept = '[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"5"}}]'
    assert annotations["autoscaling.alpha.kubernetes.io/metrics"] == kept
    assert annotations["autoscaling.alpha.kubernetes.io/behavior"].startswith('{"ScaleUp":')

    shown["spec"]["maxReplicas"] = 9
    assert warned.ask("PUT", f"{older}/web", shown).code == 200
    again = warned.ask("GET", f"{newer}/web").body
    assert again["spec"] == {**stored["spec"], "maxReplicas": 9}
    assert again["metadata"]["annotations"] == {"mine": "stays"}


def test_an_autoscaler_of_v1_without_a_target_aims_at_80_percent_of_the_cpu(warned: Served) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    body = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    older = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    created = warned.ask("POST", older, {**body, "spec": spec})
    assert (created.code, created.body["spec"]["targetCPUUtilizationPercentage"]) == (201, 80)


def test_server_side_apply_in_the_older_version_changes_what_it_says_and_manages_its_fields(
    warned: Served,
) -> None:
    newer = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/applied"
    older = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/applied"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body: dict[str, Any] = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "applied"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
    }
    form = {"Content-Type": "application/apply-patch+yaml"}
    assert warned.ask("PATCH", f"{older}?fieldManager=me", body, **form).code == 201
    body["spec"]["maxReplicas"] = 4
    shown = warned.ask("PATCH", f"{older}?fieldManager=me", body, **form)
    assert (shown.code, shown.body["spec"]["maxReplicas"]) == (200, 4)
    (managed,) = shown.body["metadata"]["managedFields"]
    assert (managed["manager"], managed["apiVersion"]) == ("me", "autoscaling/v1")
    assert "f:targetCPUUtilizationPercentage" in managed["fieldsV1"]["f:spec"]
    (metric,) = warned.ask("GET", newer).body["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}


def test_errors_name_the_group_that_was_asked_for(warned: Served) -> None:
    core = warned.ask("GET", "/api/v1/namespaces/default/events/none")
    assert (core.code, core.body["message"]) == (404, 'events "none" not found')
    assert "group" not in core.body["details"]
    newer = warned.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events/none")
    assert newer.body["message"] == 'events.events.k8s.io "none" not found'


KNOWN_HASHES: dict[str, dict[str, str | None]] = {
    "/api/v1": {
        "pods": "xPOwRZ+Yhw8=",
        "events": "r2yiGXH7wu8=",
        "componentstatuses": None,
        "bindings": None,
    },
    "/apis/apps/v1": {"deployments": "8aSe+NMegvE=", "deployments/status": None},
    "/apis/events.k8s.io/v1": {"events": "r2yiGXH7wu8="},
}


@pytest.mark.parametrize("path", KNOWN_HASHES)
def test_discovery_says_in_which_version_objects_are_stored(warned: Served, path: str) -> None:
    resources = {entry["name"]: entry for entry in warned.ask("GET", path).body["resources"]}
    found = {name: resources[name].get("storageVersionHash") for name in KNOWN_HASHES[path]}
    assert found == KNOWN_HASHES[path]


def test_groups_come_by_priority_and_versions_the_newest_stable_one_first(warned: Served) -> None:
    groups = warned.ask("GET", "/apis").body["groups"]
    names = [group["name"] for group in groups]
    assert names[:4] == ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]
    versions = {group["name"]: [each["version"] for each in group["versions"]] for group in groups}
    assert versions["autoscaling"] == ["v2", "v1"]
    assert versions["scheduling.k8s.io"] == ["v1", "v1beta1", "v1alpha3"]


@pytest.mark.parametrize("resource", [*BUILT_IN, *CREATE_ONLY], ids=lambda resource: resource.dotted)
def test_openapi_describes_every_kind_under_its_group(warned: Served, resource: Resource) -> None:
    document = warned.ask("GET", f"/openapi/v3{resource.prefix}").body
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = document["components"]["schemas"].values()
    described = [schema for schema in schemas if kind in schema.get("x-kubernetes-group-version-kind", ())]
    assert len(described) == 1
    assert described[0]["description"]
    assert any(path.endswith(f"/{resource.plural}") for path in document["paths"])


def test_only_the_verbs_of_a_kind_are_allowed(warned: Served) -> None:
    assert warned.ask("DELETE", "/api/v1/namespaces").code == 405
    body = {"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": "x"}}
    assert warned.ask("POST", "/api/v1/componentstatuses", body).code == 405
    listed = warned.ask("GET", "/api/v1/componentstatuses")
    assert listed.headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'


def test_a_time_that_is_none_is_refused_in_the_words_of_go(warned: Served) -> None:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "yesterday"},
    }
    refused = warned.ask("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    parsed = (
        'parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006"'
    )
    assert (refused.code, refused.body["message"]) == (
        400,
        f'Lease in version "v1" cannot be handled as a Lease: {parsed}',
    )
