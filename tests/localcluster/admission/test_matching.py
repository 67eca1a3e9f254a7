"""Rules of webhooks and policies: which requests they select, and as which version."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.localcluster.admission.matching import Constraints
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

Json = dict[str, Any]
DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}


@dataclass
class Request:
    """A request as rules see it; the namespace `prod` has the label `tier=gold`."""

    resource: Resource = catalogue.DEPLOYMENTS
    operation: str = "CREATE"
    subresource: str = ""
    namespace: str = "prod"
    name: str = "web"
    object: Json | None = field(default_factory=lambda: labelled("app", "web"))
    old: Json | None = None

    def __post_init__(self) -> None:
        self.lookup = Store(RealClock(), random.Random(0))
        metadata = {"name": "prod", "labels": {"tier": "gold"}}
        self.lookup.create(catalogue.NAMESPACES, {"metadata": metadata})


def labelled(key: str, value: str) -> Json:
    return {"metadata": {"name": "web", "labels": {key: value}}}


def matched(request: Request, rule: Json | None = None, **others: Any) -> str:
    """Version in which constraints match a request, empty if they do not."""
    given = {"resourceRules": [DEPLOYMENTS if rule is None else {**DEPLOYMENTS, **rule}], **others}
    found = Constraints(given, needs_rules=True).match(request)
    return "" if found is None else found.dotted


WEB = "deployments.v1.apps"
GOLD = {"matchLabels": {"tier": "gold"}}


@pytest.mark.parametrize(
    ("request_", "rule", "expected"),
    [
        (Request(), {}, WEB),
        (Request(operation="UPDATE"), {}, ""),
        (Request(operation="UPDATE"), {"operations": ["*"]}, WEB),
        (Request(), {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}, WEB),
        (Request(), {"apiGroups": [""]}, ""),
        (Request(), {"apiVersions": ["v1beta1"]}, ""),
        (Request(), {"resources": ["pods", "deployments"]}, WEB),
        (Request(subresource="scale"), {}, ""),
        (Request(subresource="scale"), {"resources": ["deployments/scale"]}, WEB),
        (Request(subresource="scale"), {"resources": ["*/scale"]}, WEB),
        (Request(subresource="scale"), {"resources": ["deployments/*"]}, WEB),
        (Request(), {"resources": ["deployments/*"]}, WEB),
        (Request(), {"resources": ["*/*"]}, WEB),
        (Request(subresource="status"), {"resources": ["*"]}, ""),
        (Request(), {"scope": "Namespaced"}, WEB),
        (Request(), {"scope": "Cluster"}, ""),
        (Request(), {"resourceNames": ["web"]}, WEB),
        (Request(), {"resourceNames": ["other"]}, ""),
    ],
)
def test_a_rule_matches_by_operation_group_version_resource_scope_and_name(
    request_: Request, rule: Json, expected: str
) -> None:
    assert matched(request_, rule) == expected


def test_a_namespace_is_of_cluster_scope_and_is_selected_by_its_own_new_labels() -> None:
    rule = {"apiGroups": [""], "resources": ["namespaces"], "scope": "Cluster"}
    made = {"metadata": {"name": "prod", "labels": {"tier": "gold"}}}
    request = Request(catalogue.NAMESPACES, name="prod", object=made)
    assert matched(request, rule, namespaceSelector=GOLD)
    assert not matched(request, {**rule, "scope": "Namespaced"})
    request.object = {"metadata": {"name": "prod"}}
    assert not matched(request, rule, namespaceSelector=GOLD)


def test_a_deleted_namespace_is_selected_by_the_labels_it_has() -> None:
    rule = {"apiGroups": [""], "resources": ["namespaces"], "operations": ["DELETE"]}
    request = Request(
        catalogue.NAMESPACES, "DELETE", name="prod", object=None, old={"metadata": {"name": "prod"}}
    )
    assert matched(request, rule, namespaceSelector=GOLD)


def test_objects_of_no_namespace_are_not_left_out_by_a_namespace_selector() -> None:
    rule = {"apiGroups": [""], "resources": ["nodes"]}
    assert matched(Request(catalogue.NODES, namespace=""), rule, namespaceSelector=GOLD)


def test_a_selector_of_namespaces_needs_the_namespace() -> None:
    assert matched(Request(), namespaceSelector=GOLD) == WEB
    assert not matched(Request(), namespaceSelector={"matchLabels": {"tier": "iron"}})
    with pytest.raises(ApiError, match='namespaces "gone" not found'):
        matched(Request(namespace="gone"), namespaceSelector=GOLD)
    assert not matched(Request(operation="DELETE", namespace="gone"), namespaceSelector=GOLD)


def test_the_object_or_the_one_it_replaces_is_selected() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    assert matched(Request(), objectSelector=selector)
    other = labelled("app", "db")
    assert not matched(Request(object=other), objectSelector=selector)
    assert matched(Request(object=other, old=labelled("app", "web")), objectSelector=selector)
    assert matched(Request(object=None, old=labelled("app", "web")), objectSelector=selector)


def test_excluded_rules_win() -> None:
    assert not matched(Request(), excludeResourceRules=[{**DEPLOYMENTS, "resources": ["*"]}])
    assert matched(Request(), excludeResourceRules=[{**DEPLOYMENTS, "resources": ["pods"]}])


def test_another_version_of_the_same_objects_matches_unless_it_must_be_exact() -> None:
    rule = {"apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}
    request = Request(catalogue.HORIZONTAL_POD_AUTOSCALERS_V1)
    assert matched(request, rule) == "horizontalpodautoscalers.v2.autoscaling"
    assert not matched(request, rule, matchPolicy="Exact")
    events = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}
    assert matched(Request(catalogue.EVENTS), events) == "events.v1."


def test_without_rules_a_webhook_matches_nothing_and_a_binding_everything() -> None:
    assert Constraints({}, needs_rules=True).match(Request()) is None
    assert Constraints({}, needs_rules=False).match(Request()) == catalogue.DEPLOYMENTS
