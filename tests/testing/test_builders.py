"""The builders of stowplan.testing make what an API server would store."""

from typing import Any

import msgspec
import pytest

from stowplan.api.decode import convert
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.testing import NodeBuilder, PodBuilder, node, pod
from stowplan.testing.builders import builder_text


def as_document(obj: Object) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(obj)
    return document


def test_a_pod_says_what_was_asked_for() -> None:
    built = (
        pod("p")
        .namespace("a")
        .labels({"example.com/tier": "gold"}, app="x")
        .annotations(note="n")
        .requests({"example.com/gpu": 2}, cpu="100m", memory="500Mi", ephemeral_storage="1Gi")
        .limits(cpu="200m")
        .image("nginx:1.27")
        .port(80, host_port=8080)
        .priority(7)
        .scheduler("other")
        .gates("wait")
        .obj()
    )
    written = convert(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "a",
                "uid": built.metadata.uid,
                "labels": {"app": "x", "example.com/tier": "gold"},
                "annotations": {"note": "n"},
            },
            "spec": {
                "schedulerName": "other",
                "priority": 7,
                "schedulingGates": [{"name": "wait"}],
                "containers": [
                    {
                        "name": "main",
                        "image": "nginx:1.27",
                        "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                        "resources": {
                            "requests": {
                                "cpu": "100m",
                                "memory": "500Mi",
                                "ephemeral-storage": "1Gi",
                                "example.com/gpu": 2,
                            },
                            "limits": {"cpu": "200m"},
                        },
                    }
                ],
            },
            "status": {"phase": "Pending"},
        },
        Pod,
    )
    assert built == written


@pytest.mark.parametrize(
    ("builder", "field", "expected"),
    [
        pytest.param(
            pod("p").tolerates("gpu"),
            "tolerations",
            [{"key": "gpu", "operator": "Exists"}],
            id="a toleration of any value",
        ),
        pytest.param(
            pod("p").tolerates("gpu", "a100", "NoExecute").tolerates(),
            "tolerations",
            [
                {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoExecute"},
                {"operator": "Exists"},
            ],
            id="two tolerations",
        ),
        pytest.param(
            pod("p").node_selector({"a/b": "1"}).node_selector(disk="ssd"),
            "nodeSelector",
            {"a/b": "1", "disk": "ssd"},
            id="a node selector in two steps",
        ),
        pytest.param(
            pod("p").labels(app="x").spread("zone", max_skew=5, min_domains=3),
            "topologySpreadConstraints",
            [
                {
                    "maxSkew": 5,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "x"}},
                    "minDomains": 3,
                }
            ],
            id="spreading over its own labels",
        ),
        pytest.param(
            pod("p").anti_affinity("host", {"app": "x"}).affinity("zone", {"app": "y"}, weight=3),
            "affinity",
            {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}
                    ]
                },
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 3,
                            "podAffinityTerm": {
                                "topologyKey": "zone",
                                "labelSelector": {"matchLabels": {"app": "y"}},
                            },
                        }
                    ]
                },
            },
            id="required and preferred affinity between pods",
        ),
        pytest.param(
            pod("p")
            .node_affinity("disk", "In", "ssd", "nvme")
            .node_affinity("gen", "Exists")
            .node_affinity("tier", "In", "gold", weight=10),
            "affinity",
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
                                    {"key": "gen", "operator": "Exists"},
                                ]
                            }
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 10,
                            "preference": {
                                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]
                            },
                        }
                    ],
                }
            },
            id="required and preferred nodes",
        ),
        pytest.param(
            pod("p").init_container(cpu="2").init_container(cpu="1", sidecar=True),
            "initContainers",
            [
                {"name": "init-0", "resources": {"requests": {"cpu": "2"}}},
                {"name": "init-1", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
            ],
            id="init containers and sidecars",
        ),
    ],
)
def test_wishes_are_written_as_in_a_manifest(builder: PodBuilder, field: str, expected: object) -> None:
    document = msgspec.json.decode(msgspec.json.encode(builder.obj()))
    assert document["spec"][field] == expected


def test_a_selector_object_can_stand_in_for_labels() -> None:
    odd = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Exists"),))
    built = pod("p").anti_affinity("host", odd, namespaces=("a",)).obj()
    assert built.spec.affinity is not None
    assert built.spec.affinity.pod_anti_affinity is not None
    term = built.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution[0]
    assert (term.label_selector, term.namespaces) == (odd, ("a",))


def test_a_pod_on_a_node_runs_there() -> None:
    built = pod("p").on("n").terminating().owned_by("ReplicaSet", "web").nominated("m").obj()
    assert (built.spec.node_name, built.status.phase) == ("n", "Running")
    assert built.is_terminating
    assert built.status.nominated_node_name == "m"
    assert built.metadata.owner_references[0].controller is True


def test_a_node_says_what_was_asked_for() -> None:
    built = (
        node("n")
        .capacity({"example.com/gpu": 4}, cpu="32", memory="256Gi")
        .allocatable(cpu="31")
        .labels({"disk": "ssd"})
        .zone("zone1")
        .annotations(note="n")
        .taint("k", "v", "NoExecute")
        .taint("soft", effect="PreferNoSchedule")
        .image("nginx:1.27", 1000)
        .features("F")
        .unschedulable()
        .obj()
    )
    assert built.metadata.labels == {
        "kubernetes.io/hostname": "n",
        "disk": "ssd",
        "topology.kubernetes.io/zone": "zone1",
    }
    assert built.status.capacity == {"cpu": "32", "memory": "256Gi", "pods": 110, "example.com/gpu": 4}
    assert built.status.allocatable == {**built.status.capacity, "cpu": "31"}
    document = as_document(built)
    assert document["spec"] == {
        "unschedulable": True,
        "taints": (
            {"key": "k", "value": "v", "effect": "NoExecute"},
            {"key": "soft", "effect": "PreferNoSchedule"},
        ),
    }
    assert document["status"]["images"] == ({"names": ("nginx:1.27",), "sizeBytes": 1000},)
    assert document["status"]["declaredFeatures"] == ("F",)
    assert document["metadata"]["annotations"] == {"note": "n"}


@pytest.mark.parametrize(
    "vary",
    [
        pytest.param(lambda: (pod("p"), pod("p").labels(a="b")), id="labels"),
        pytest.param(lambda: (pod("p"), pod("p").requests(cpu=1)), id="requests"),
        pytest.param(lambda: (node("n"), node("n").capacity(cpu=1)), id="capacity"),
    ],
)
def test_a_builder_never_changes(vary: Any) -> None:
    template, variant = vary()
    before = as_document(template.obj())
    grown: PodBuilder | NodeBuilder = template
    for _ in range(2):
        grown = grown.labels(more="labels").annotations(more="annotations")
    assert as_document(template.obj()) == before
    assert variant.obj() != template.obj()
    assert grown.obj() != template.obj()


def test_uids_differ_by_namespace_name_and_kind_and_repeat_in_every_run() -> None:
    objects: list[Pod | Node] = [
        pod("a").obj(),
        pod("b").obj(),
        pod("a").namespace("other").obj(),
        node("a").obj(),
    ]
    uids = {obj.metadata.uid for obj in objects}
    assert len(uids) == 4
    assert pod("a").labels(x="y").obj().metadata.uid == objects[0].metadata.uid
    assert objects[0].metadata.uid == "b0e7230b-adeb-5f97-98ff-707ce6d6b6d6"
    assert pod("a").uid("mine").obj().metadata.uid == "mine"


@pytest.mark.parametrize(
    "text",
    [
        'node("n")',
        'node("n").zone("a").labels(disk="ssd").capacity(cpu="2", pods=3)',
        'node("n").annotations({"example.com/x": "1"})',
        'node("n").taint("gpu").taint("down", "", "NoExecute").unschedulable()',
        'node("n").image("web:1", 5).features("F")',
        'pod("p")',
        'pod("p").namespace("team").labels({"a/b": "c"}).priority(5).requests(cpu="1").limits(cpu="2")',
        'pod("p").image("web:1").port(80, host_port=8080).node_selector(disk="ssd").tolerates("gpu").on("n")',
        'pod("p").tolerates("gpu", "yes", "NoSchedule").spec(host_network=True)',
    ],
)
def test_the_text_of_an_object_makes_the_object_again(text: str) -> None:
    made = eval(text, {"node": node, "pod": pod}).obj()
    assert builder_text(made) == text
