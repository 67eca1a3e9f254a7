"""The FlowSchemas and PriorityLevelConfigurations that every cluster begins with.

Nothing is limited by them here. Clients, such as dashboards of API Priority and Fairness, expect them.
"""

from collections.abc import Iterator
from typing import Any, Final

from stowplan.api.catalogue import FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import API_SERVER

_PRODUCER: Final = API_SERVER._replace(field_manager="api-priority-and-fairness-config-producer-v1")
_CONSUMER: Final = API_SERVER._replace(field_manager="api-priority-and-fairness-config-consumer-v1")
_AUTO_UPDATE: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}
_LEVELS: Final[tuple[tuple[str, int, int, tuple[int, int] | None], ...]] = (
    ("catch-all", 5, 0, None),
    ("system", 30, 33, (64, 6)),
    ("node-high", 40, 25, (64, 6)),
    ("leader-election", 10, 0, (16, 4)),
    ("workload-high", 40, 50, (128, 6)),
    ("workload-low", 100, 90, (128, 6)),
    ("global-default", 20, 50, (128, 6)),
)
"""Name, shares, lendable percentage, and number of queues and hand size of each level that is limited."""

_QUEUE_LENGTH: Final = 50
_EVERYTHING: Final = ("*", "*", "*", True)
_ALL_URLS: Final = ("*", ("*",))
_EVERYBODY: Final = ("Group/system:unauthenticated", "Group/system:authenticated")
_MANAGER: Final = "User/system:kube-controller-manager"
_SCHEDULER: Final = "User/system:kube-scheduler"
_SYSTEM_ACCOUNTS: Final = "ServiceAccount/*"

_Rule = tuple[str, str, str, bool]
_SCHEMAS: Final[tuple[tuple[str, str, int, str, tuple[str, ...], tuple[_Rule, ...], Any], ...]] = (
    ("exempt", "exempt", 1, "", ("Group/system:masters",), (_EVERYTHING,), _ALL_URLS),
    ("probes", "exempt", 2, "", _EVERYBODY, (), ("get", ("/healthz", "/readyz", "/livez"))),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS),
        (("get,create,update", "coordination.k8s.io", "leases", False),),
        None,
    ),
    (
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        ("Group/system:nodes",),
        (("*", "", "nodes,nodes/status", True), ("*", "coordination.k8s.io", "leases", False)),
        None,
    ),
    ("system-nodes", "system", 500, "ByUser", ("Group/system:nodes",), (_EVERYTHING,), _ALL_URLS),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        (_MANAGER,),
        (_EVERYTHING,),
        _ALL_URLS,
    ),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", (_SCHEDULER,), (_EVERYTHING,), _ALL_URLS),
    (
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        (_SYSTEM_ACCOUNTS,),
        (_EVERYTHING,),
        _ALL_URLS,
    ),
    (
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        ("Group/system:serviceaccounts",),
        (_EVERYTHING,),
        _ALL_URLS,
    ),
    ("global-default", "global-default", 9900, "ByUser", _EVERYBODY, (_EVERYTHING,), _ALL_URLS),
    ("catch-all", "catch-all", 10000, "ByUser", _EVERYBODY, (_EVERYTHING,), _ALL_URLS),
)
"""Name, level, precedence, distinguisher, subjects, rules on resources (verbs, groups, resources, and if they
hold for the cluster) and on URLs (verb, URLs)."""


def create_flow_control(store: Store) -> None:
    """Create the objects that are not there yet."""
    for resource, body in flow_control():
        if store.find(resource, "", body["metadata"]["name"]) is not None:
            continue
        made = store.create(resource, body, by=_PRODUCER)
        if resource == FLOW_SCHEMAS:
            found = _not_dangling(body, made["metadata"]["creationTimestamp"])
            status = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": body["metadata"]["name"]},
                "status": {"conditions": [found]},
            }
            store.apply(resource, status, _CONSUMER, force=True, subresource="status")


def flow_control() -> Iterator[tuple[Resource, Json]]:
    """Every object, levels first."""
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield PRIORITY_LEVEL_CONFIGURATIONS, _object("exempt", {"type": "Exempt", "exempt": exempt})
    for name, shares, lendable, queues in _LEVELS:
        response: Json = {"type": "Reject"}
        if queues is not None:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": _QUEUE_LENGTH}
            response = {"type": "Queue", "queuing": queuing}
        limited = {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": response,
        }
        yield PRIORITY_LEVEL_CONFIGURATIONS, _object(name, {"type": "Limited", "limited": limited})
    for name, level, precedence, distinguisher, subjects, rules, urls in _SCHEMAS:
        rule: Json = {"subjects": [_subject(one) for one in subjects]}
        if rules:
            rule["resourceRules"] = [_resource_rule(*one) for one in rules]
        if urls is not None:
            rule["nonResourceRules"] = [{"verbs": [urls[0]], "nonResourceURLs": [*urls[1]]}]
        spec: Json = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [rule],
        }
        if distinguisher:
            spec["distinguisherMethod"] = {"type": distinguisher}
        yield FLOW_SCHEMAS, _object(name, spec)


def _object(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "annotations": dict(_AUTO_UPDATE)}, "spec": spec}


def _subject(text: str) -> Json:
    kind, _, name = text.partition("/")
    if kind == "ServiceAccount":
        return {"kind": kind, "serviceAccount": {"name": name, "namespace": "kube-system"}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _resource_rule(verbs: str, groups: str, resources: str, cluster: bool) -> Json:
    rule: Json = {
        "verbs": verbs.split(","),
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
        "namespaces": ["*"],
    }
    return {**rule, "clusterScope": True} if cluster else rule


def _not_dangling(schema: Json, stamp: str) -> Json:
    level = schema["spec"]["priorityLevelConfiguration"]["name"]
    reference = f'the PriorityLevelConfiguration object named "{level}"'
    return {
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": stamp,
        "reason": "Found",
        "message": f"This FlowSchema references {reference} and it exists",
    }
