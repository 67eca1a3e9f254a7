"""PodGroup and CompositePodGroup as the API server sends them, and what is read from them."""

from typing import Any

import pytest

from stowplan.api.decode import convert_any
from stowplan.api.pod_groups import CompositePodGroup, GroupObject, PodGroup, group_key_of
from stowplan.testing import pod


def group(kind: str = "PodGroup", **spec: Any) -> GroupObject:
    made = convert_any(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": kind,
            "metadata": {"name": "g", "namespace": "ns"},
            "spec": spec,
        }
    )
    assert isinstance(made, GroupObject)
    return made


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        ({"schedulingPolicy": {"basic": {}}}, {"is_gang": False, "minimum": 1}),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, {"is_gang": True, "minimum": 3}),
        ({"priority": 7}, {"priority": 7}),
        ({"priority": None}, {"priority": 0}),
        ({}, {"preemption_policy": "PreemptLowerPriority", "disrupted_together": False, "topology_key": ""}),
        ({"preemptionPolicy": "Never"}, {"preemption_policy": "Never"}),
        ({"disruptionMode": {"single": {}}}, {"disrupted_together": False}),
        ({"disruptionMode": {"all": {}}}, {"disrupted_together": True}),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, {"topology_key": "rack"}),
        ({"schedulingConstraints": {"topology": None}}, {"topology_key": ""}),
        ({"parentCompositePodGroupName": "top"}, {"parent": "compositepodgroup/ns/top"}),
        ({}, {"parent": None, "group_key": "podgroup/ns/g"}),
    ],
)
def test_fields_of_a_pod_group(spec: dict[str, Any], read: dict[str, Any]) -> None:
    made = group(**spec)
    assert isinstance(made, PodGroup)
    assert {name: getattr(made, name) for name in read} == read


def test_a_composite_group_counts_groups() -> None:
    made = group("CompositePodGroup", schedulingPolicy={"gang": {"minGroupCount": 2}})
    assert isinstance(made, CompositePodGroup)
    assert (made.minimum, made.group_key) == (2, "compositepodgroup/ns/g")
    assert group("CompositePodGroup", schedulingPolicy={"basic": {}}).minimum == 1


def test_a_condition_without_a_time_can_be_read() -> None:
    made = convert_any(
        {
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "ns"},
            "status": {
                "conditions": [{"type": "PodGroupInitiallyScheduled", "lastTransitionTime": None}],
                "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "g-c-x"}],
            },
        }
    )
    assert isinstance(made, PodGroup)
    assert made.status.conditions[0].last_transition_time is None
    assert made.status.resource_claim_statuses[0].resource_claim_name == "g-c-x"


def test_the_group_a_pod_names() -> None:
    assert group_key_of(pod("p").obj()) is None
    assert group_key_of(pod("p").namespace("ns").group("g").obj()) == "podgroup/ns/g"
