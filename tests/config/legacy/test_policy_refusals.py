"""A Policy with a mistake is refused with one line that names it."""

import json
from typing import Any

import pytest

from config.legacy.documents import policy
from stowplan.config import ConfigError
from stowplan.config.legacy import (
    POLICY_KEY,
    policy_config,
    policy_file_config,
    policy_in_configmap,
    provider_config,
)

LEAST = {"name": "LeastRequestedPriority", "weight": 1}
SHAPE = [{"utilization": 0, "score": 0}]


def predicates(*items: Any) -> str:
    return policy(predicates=list(items))


def priorities(*items: Any) -> str:
    return policy(priorities=list(items))


def argued(kind: str, value: Any, name: str = "mine", **more: Any) -> dict[str, Any]:
    return {"name": name, **more, "argument": {kind: value}}


def ratio(**value: Any) -> str:
    return priorities(argued("requestedToCapacityRatioArguments", value, weight=1))


def extender(**fields: Any) -> str:
    return policy(extenders=[{"urlPrefix": "http://x", **fields}])


REFUSED = [
    ("[]", "document: expected an object, got a list"),
    ("{}", "kind: missing, expected Policy"),
    ('{"kind": "Policy"}', "apiVersion: missing, expected v1"),
    ('{"kind": "Polizei", "apiVersion": "v1"}', 'kind: expected Policy, got "Polizei"'),
    ('{"kind": "Policy", "apiVersion": "v2"}', 'apiVersion: expected v1, got "v2"'),
    ('{"kind": "Policy", "apiVersion": "v1", ', "unexpected end of JSON input"),
    ('{"kind": "Policy", "apiVersion": "v1", "kind": "Policy"}', "kind: given twice"),
    ("kind: Policy\napiVersion: v1\nkind: Policy\n", 'yaml: line 3: key "kind" already set in map'),
    (policy(predicate=[]), "predicate: unknown field of a Policy"),
    (policy(predicates={}), "predicates: expected a list, got an object"),
    (policy(alwaysCheckAllPredicates="yes"), 'alwaysCheckAllPredicates: expected true or false, got "yes"'),
    (
        policy(hardPodAffinitySymmetricWeight=101),
        "hardPodAffinitySymmetricWeight: 101 is not between 0 and 100",
    ),
    (
        policy(hardPodAffinitySymmetricWeight=1.5),
        "hardPodAffinitySymmetricWeight: expected a whole number, got 1.5",
    ),
    # Predicates
    (predicates("HostName"), 'predicates[0]: expected an object, got "HostName"'),
    (predicates({}), "predicates[0].name: missing, expected the name of a predicate"),
    (
        predicates({"name": "HostName"}, {"name": "Hostname"}),
        'predicates[1].name: unknown predicate "Hostname"',
    ),
    (predicates({"name": "LeastRequestedPriority"}), 'unknown predicate "LeastRequestedPriority"'),
    (predicates({"name": "HostName", "weight": 1}), "predicates[0].weight: unknown field of a predicate"),
    (
        predicates({"name": "HostName"}, {"name": "NoDiskConflict"}, {"name": "HostName"}),
        "predicates[2].name: HostName is there already as predicates[0]",
    ),
    (
        predicates({"name": "CheckServiceAffinity"}),
        "predicates[0]: CheckServiceAffinity needs an argument serviceAffinity",
    ),
    (
        predicates({"name": "x", "argument": {}}),
        "predicates[0].argument: expected one of serviceAffinity, labelsPresence",
    ),
    (
        predicates(
            {
                "name": "x",
                "argument": {"serviceAffinity": {"labels": ["a"]}, "labelsPresence": {"labels": ["a"]}},
            }
        ),
        "predicates[0].argument: expected one of serviceAffinity, labelsPresence",
    ),
    (
        predicates(argued("labelPreference", {"label": "a"})),
        "predicates[0].argument.labelPreference: unknown field of an argument",
    ),
    (
        predicates(argued("serviceAffinity", {"labels": ["a"]}, "HostName")),
        "argument.serviceAffinity: HostName takes no argument",
    ),
    (
        predicates(argued("labelsPresence", {"labels": ["a"]}, "CheckServiceAffinity")),
        "argument.labelsPresence: CheckServiceAffinity takes serviceAffinity",
    ),
    (
        predicates(argued("serviceAffinity", {})),
        "serviceAffinity.labels: missing, expected at least one label",
    ),
    (
        predicates(argued("serviceAffinity", {"labels": [1]})),
        "serviceAffinity.labels[0]: expected text, got 1",
    ),
    (predicates(argued("serviceAffinity", {"label": "a"})), "serviceAffinity.labels: missing"),
    (
        predicates(argued("labelsPresence", {"labels": ["a"], "absent": True})),
        "labelsPresence.absent: unknown field of labelsPresence",
    ),
    (
        predicates(
            argued("labelsPresence", {"labels": ["a"], "presence": True}, "x"),
            argued("labelsPresence", {"labels": ["b", "a"]}, "y"),
        ),
        "label a: is to be both present and absent",
    ),
    # Priorities
    (
        priorities({"name": "FirstRequestedPriority", "weight": 1}),
        'priorities[0].name: unknown priority "FirstRequestedPriority"',
    ),
    (priorities({"name": "HostName", "weight": 1}), 'unknown priority "HostName"'),
    (
        priorities({"name": "LeastRequestedPriority"}),
        "priorities[0].weight: missing for LeastRequestedPriority",
    ),
    (priorities({**LEAST, "weight": 0}), "priorities[0].weight: 0 is not between 1 and 2147483647"),
    (priorities({**LEAST, "weight": -3}), "priorities[0].weight: -3 is not between"),
    (priorities({**LEAST, "weight": 2**31}), "priorities[0].weight: 2147483648 is not between"),
    (priorities({**LEAST, "weight": "1"}), 'priorities[0].weight: expected a whole number, got "1"'),
    (priorities({**LEAST, "weight": True}), "priorities[0].weight: expected a whole number, got true"),
    (
        priorities(LEAST, LEAST),
        "priorities[1].name: LeastRequestedPriority is there already as priorities[0]",
    ),
    (
        priorities(
            {"name": "SelectorSpreadPriority", "weight": 1}, {"name": "ServiceSpreadingPriority", "weight": 1}
        ),
        "priorities[1]: ServiceSpreadingPriority and SelectorSpreadPriority are the same priority",
    ),
    (
        priorities(
            argued("labelPreference", {"label": "a"}, "x", weight=1),
            argued("labelPreference", {"label": "b"}, "y", weight=2),
        ),
        "priorities[1].weight: y and x must have the same weight: they are one plugin, NodeLabel",
    ),
    (
        priorities(
            argued("requestedToCapacityRatioArguments", {"shape": SHAPE}, "x", weight=1),
            argued("requestedToCapacityRatioArguments", {"shape": SHAPE}, "y", weight=1),
        ),
        "priorities[1]: y and x are the same priority",
    ),
    (priorities(argued("labelPreference", {}, weight=1)), "labelPreference.label: missing, expected a label"),
    (
        priorities(argued("serviceAntiAffinity", {"labels": ["a"]}, weight=1)),
        "serviceAntiAffinity.label: missing",
    ),
    (
        priorities(argued("labelPreference", {"label": "a"}, "EqualPriority", weight=1)),
        "EqualPriority takes no argument",
    ),
    (
        priorities({"name": "NodeLabelPriority", "weight": 1}),
        "priorities[0]: NodeLabelPriority needs an argument labelPreference",
    ),
    (ratio(), "requestedToCapacityRatioArguments.shape: missing, expected at least one point"),
    (ratio(shape=[{"utilization": 101, "score": 1}]), "shape[0].utilization: 101 is not between 0 and 100"),
    (ratio(shape=[{"utilization": 1, "score": 11}]), "shape[0].score: 11 is not between 0 and 10"),
    (ratio(shape=[*SHAPE, *SHAPE]), "shape[1].utilization: 0 does not come after 0"),
    (ratio(shape=[{"x": 1}]), "shape[0].x: unknown field of a point"),
    (ratio(shape=SHAPE, resources=[{"name": "a"}, {"name": "a"}]), "resources[1].name: a is there already"),
    (ratio(shape=SHAPE, resources=[{"weight": 1}]), "resources[0].name: missing"),
    (ratio(shape=SHAPE, resources=[{"name": "a", "weight": -1}]), "resources[0].weight: -1 is not between"),
    # Extenders
    (extender(filter="f"), "extenders[0].filter: unknown field of an extender"),
    (extender(weight=1, WEIGHT=2), "extenders[0].WEIGHT: given twice"),
    (extender(httpTimeout="30s"), 'extenders[0].httpTimeout: expected a whole number, got "30s"'),
    (extender(tlsConfig={"ca": "x"}), "extenders[0].tlsConfig.ca: unknown field of a TLS configuration"),
    (
        extender(managedResources=[{"resource": "x"}]),
        "managedResources[0].resource: unknown field of a managed resource",
    ),
    (extender(prioritizeVerb="p"), "extenders[0].weight: Invalid value: 0: must have a positive weight"),
    (extender(weight="x"), "json: cannot unmarshal string into Go struct field"),
    (
        policy(
            extenders=[{"urlPrefix": "http://x", "bindVerb": "b"}, {"urlPrefix": "http://y", "bindVerb": "b"}]
        ),
        "only one extender can implement bind",
    ),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_a_mistake_is_named_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        policy_config(text, where="my-policy")
    assert told in str(refusal.value)
    assert str(refusal.value).startswith("my-policy: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["", "defaultprovider", "DefaultProvider@1.10", "@1.9", "DefaultProvider@"])
def test_a_provider_must_be_known(name: str) -> None:
    if name.endswith("r@"):
        assert provider_config(name) == provider_config("DefaultProvider")
        return
    with pytest.raises(
        ConfigError, match=f'unknown algorithm provider "{name}": there are ClusterAutoscaler'
    ):
        provider_config(name)


def test_a_file_that_is_not_there(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        policy_file_config(tmp_path / "none.json")


def test_a_configmap_has_its_policy_under_a_certain_key() -> None:
    assert policy_in_configmap({POLICY_KEY: "text"}, "kube-system/p") == "text"
    with pytest.raises(
        ConfigError, match=r'ConfigMap kube-system/p: there is no Policy under the key "policy\.cfg"'
    ):
        policy_in_configmap({"policy": "text"}, "kube-system/p")


def test_yaml_and_json_mean_the_same() -> None:
    text = priorities(LEAST, argued("labelPreference", {"label": "a", "presence": True}, weight=2))
    yaml = "\n".join(f"{key}: {json.dumps(value)}" for key, value in json.loads(text).items())
    assert policy_config(yaml) == policy_config(text)
