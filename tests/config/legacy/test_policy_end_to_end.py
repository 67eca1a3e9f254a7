"""Providers, sample Policies and configurations of earlier versions at work: pods in, nodes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from config.legacy.documents import SAMPLES, sample
from scheduler.live_scheduler import NAMESPACE, World, live
from stowplan.api.catalogue import NODES, SERVICES
from stowplan.config import LoadedConfig
from stowplan.config.legacy import load_any, provider_config
from stowplan.testing.extenders import RuleExtender, Rules

AVOIDING = {
    "scheduler.alpha.kubernetes.io/preferAvoidPods": '{"preferAvoidPods": [{"podSignature": '
    '{"podController": {"kind": "ReplicaSet", "name": "web", "uid": "u1"}}}]}'
}
OWNED = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
    ]
}
WEB = {"labels": {"app": "web"}}
DOWN = {"conditions": [{"type": "Ready", "status": "False"}]}
SHORT_OF_MEMORY = {"conditions": [{"type": "MemoryPressure", "status": "True"}]}
BEST_EFFORT: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}


def gpus(count: int) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "8Gi", "pods": "110", "example.com/gpu": str(count)}
    return {"capacity": room, "allocatable": room}


def asking(**requests: str) -> dict[str, Any]:
    """A pod's container; `__` in a name stands for the slash of an extended resource of example.com."""
    named = {name.replace("__", "example.com/"): amount for name, amount in requests.items()}
    extended = {name: amount for name, amount in named.items() if "/" in name}
    resources = {"requests": named, "limits": extended}
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


@dataclass(frozen=True)
class Wish:
    """A pod, and where it goes: a node, or nowhere for a reason that contains this text."""

    name: str
    to: str = ""
    told: str = ""
    cpu: str = "1"
    about: Mapping[str, Any] = field(default_factory=dict)


def wish(name: str, to: str = "", *, told: str = "", cpu: str = "1", **about: Any) -> Wish:
    return Wish(name, to, told, cpu, about)


def play(
    config: LoadedConfig, nodes: Mapping[str, Mapping[str, Any]], *wishes: Wish, service: bool = False
) -> World:
    """Schedule pods one after the other; some may stand on nodes from the start (`nodeName`)."""

    async def story(world: World) -> None:
        for name, about in nodes.items():
            metadata = about.get("annotations")
            made = world.add_node(
                name, **{key: value for key, value in about.items() if key != "annotations"}
            )
            if metadata:
                made["metadata"]["annotations"] = metadata
                world.store.update(NODES, made)
        if service:
            spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
            world.store.create(SERVICES, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})
        await world.settle()
        for one in wishes:
            await world.add_pod(one.name, one.cpu, **one.about)
            await world.settle(1)
            assert world.node_of(one.name) == one.to, (one.name, world.message(one.name))
            if not one.to:
                assert one.told in world.message(one.name)

    return live(
        story, config=config, extenders=[RuleExtender(one, PREFERS_Z) for one in config.config.extenders]
    )


PREFERS_Z = Rules(score=lambda node, pod: 10 if node.startswith("z") else 0)

USED = [wish("old", "half", nodeName="half", cpu="3")]
EVENLY_USED = [wish("old", "half", nodeName="half", **asking(cpu="3", memory="3Gi"))]


# Providers


def test_the_default_provider_of_1_18() -> None:
    play(
        provider_config("DefaultProvider"),
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}, "cordoned": {"cpu": "64", "unschedulable": True}},
        *USED,
        wish("p", "free"),
        wish("huge", told="1 node(s) were unschedulable, 2 Insufficient cpu", cpu="20"),
    )


def test_the_default_provider_of_1_9_looks_at_the_conditions_of_nodes() -> None:
    play(
        provider_config("DefaultProvider@1.9"),
        {
            "half": {"cpu": "8", "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            "down": {"cpu": "64", "status": DOWN},
            "short": {"cpu": "32", "status": SHORT_OF_MEMORY},
        },
        *USED,
        wish("p", "short"),
        wish("besteffort", "half", **BEST_EFFORT),
        wish("huge", told="1 node(s) were not ready, 2 Insufficient cpu", cpu="40"),
    )


@pytest.mark.parametrize("name", ["ClusterAutoscalerProvider", "ClusterAutoscalerProvider@1.9"])
def test_the_provider_for_autoscaled_clusters_packs(name: str) -> None:
    nodes = {"half": {"cpu": "8"}, "free": {"cpu": "8"}}
    play(provider_config(name), nodes, *EVENLY_USED, wish("p", "half"))


def test_a_node_that_wants_to_be_avoided_is() -> None:
    play(
        provider_config("DefaultProvider"),
        {"half": {"cpu": "8"}, "free": {"cpu": "8", "annotations": AVOIDING}},
        *USED,
        wish("p", "half", metadata=OWNED),
        wish("other", "free"),
    )


# Policies

STORIES: dict[str, tuple[Mapping[str, Any], list[Wish], bool]] = {
    "scheduler-policy-config.json": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8", "labels": {"disk": "ssd"}}},
        [
            *USED,
            wish("p", "free"),
            wish("picky", "free", nodeSelector={"disk": "ssd"}),
            wish("named", told="didn't match Pod's node affinity", nodeSelector={"disk": "tape"}),
        ],
        False,
    ),
    "scheduler-policy-config-with-extender.json": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}, "z": {"cpu": "4"}},
        [*USED, wish("p", "free"), wish("huge", told="Insufficient cpu", cpu="20")],
        False,
    ),
    "packing.yaml": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}, "short": {"cpu": "4", "status": SHORT_OF_MEMORY}},
        [
            *USED,
            wish("p", "half", cpu="2"),
            wish("fills", "short", cpu="4"),
            wish("besteffort", "half", **BEST_EFFORT),
        ],
        False,
    ),
    "regions.yaml": (
        {
            "a1": {"labels": {"region": "a", "rack": "1"}},
            "a2": {"labels": {"region": "a", "rack": "2"}},
            "b1": {"labels": {"region": "b", "rack": "1", "ssd": "yes"}},
            "old": {"labels": {"region": "a", "rack": "3", "retiring": "soon"}},
        },
        [
            wish("first", "a1", metadata=WEB, nodeName="a1"),
            wish("second", "a2", metadata=WEB),
            wish("alone", "b1"),
            wish("lost", told="didn't have the requested labels", nodeSelector={"rack": "3"}),
        ],
        True,
    ),
    "ratio.json": (
        {"one": {"status": gpus(1)}, "four": {"status": gpus(4)}},
        [wish("p", "one", **asking(cpu="1", __gpu="1")), wish("q", "four", **asking(cpu="1", __gpu="1"))],
        False,
    ),
    "nothing.yaml": (
        {"small": {"cpu": "1"}, "cordoned": {"unschedulable": True}},
        [wish("p", "small", cpu="16"), wish("named", "small", nodeSelector={"a": "b"})],
        False,
    ),
    "component-1.9.yaml": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}, "down": {"cpu": "64", "status": DOWN}},
        [*USED, wish("p", "free"), wish("huge", told="1 node(s) were not ready", cpu="20")],
        False,
    ),
    "component-v1alpha1.yaml": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}},
        [
            *EVENLY_USED,
            wish("p", "half", schedulerName="packer"),
            wish("urgent", told="Insufficient cpu", schedulerName="packer", cpu="9", priority=1000),
        ],
        False,
    ),
    "component-v1alpha2.yaml": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}},
        [*USED, wish("p", "free"), wish("packed", "half", schedulerName="packer")],
        False,
    ),
    "component-v1beta1.yaml": (
        {"free": {"cpu": "64"}, "fast": {"labels": {"ssd": "1"}}},
        [wish("p", "fast"), wish("huge", told="1 node(s) didn't have the requested labels", cpu="8")],
        False,
    ),
    "component-v1beta2.yaml": (
        {"half": {"cpu": "8"}, "free": {"cpu": "8"}},
        [*USED, wish("p", "half", cpu="4")],
        False,
    ),
    "component-v1beta3.yaml": ({"cordoned": {"unschedulable": True}}, [wish("p", "cordoned")], False),
}


def test_every_sample_has_its_story() -> None:
    assert sorted(STORIES) == sorted(file.name for file in SAMPLES.iterdir())


@pytest.mark.parametrize("name", STORIES)
def test_a_sample_at_work(name: str) -> None:
    nodes, wishes, service = STORIES[name]
    play(load_any(sample(name)), nodes, *wishes, service=service)


def test_an_extender_is_sent_the_pods_that_ask_for_what_it_looks_after() -> None:
    config = load_any(sample("scheduler-policy-config-with-extender.json"))
    [given] = config.config.extenders
    extender = RuleExtender(given, PREFERS_Z)

    async def story(world: World) -> None:
        for name in ("half", "free", "z"):
            world.add_node(name)
        await world.add_pod("p", **asking(cpu="1", __foo="1"))
        assert [(pod.name, node) for pod, node in extender.bound] == [("p", "z")]

    live(story, config=config, extenders=[extender])
