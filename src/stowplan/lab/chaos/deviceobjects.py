"""Random devices and claims: few devices of few kinds, so that claims compete for them."""

from random import Random
from typing import Final

from stowplan.lab.chaos.objects import NAMESPACE, Body

DRIVER: Final = "gpu.example.com"
CLASS: Final = "gpu"
EXTENDED_RESOURCE: Final = "example.com/gpu"
MODELS: Final = ("a", "b")
COUNTER_SET: Final = "card"
TAINT: Final = {"key": "example.com/health", "value": "bad", "effect": "NoSchedule"}
READY: Final = "example.com/ready"
BROKEN: Final = "example.com/broken"
"""Condition that the driver reports for devices that have to be made ready before a pod can be bound."""


def device_class() -> Body:
    """The class of all devices, which an extended resource means as well."""
    expression = f'device.driver == "{DRIVER}"'
    return {
        "metadata": {"name": CLASS},
        "spec": {
            "selectors": [{"cel": {"expression": expression}}],
            "extendedResourceName": EXTENDED_RESOURCE,
        },
    }


def random_slices(rng: Random, node: str, generation: int) -> list[Body]:
    """The slices of a pool: devices of a node, or of all nodes if `node` is empty.

    They are for one claim each, shared by capacity, or partitions that draw on the counters of a card.
    """
    kind = rng.choice(("whole", "whole", "shared", "parts"))
    devices = [_device(rng, number, kind) for number in range(rng.randrange(1, 5))]
    bodies: list[Body] = [{"devices": devices}]
    if kind == "parts":
        counters = {"memory": {"value": rng.choice(("20Gi", "40Gi"))}, "engines": {"value": "3"}}
        bodies.append({"sharedCounters": [{"name": COUNTER_SET, "counters": counters}]})
    where: Body = {"nodeName": node} if node else {"allNodes": True}
    pool = node or "fabric"
    return [
        {
            "metadata": {"name": slice_name(pool, number)},
            "spec": {
                "driver": DRIVER,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": len(bodies)},
                **where,
                **body,
            },
        }
        for number, body in enumerate(bodies)
    ]


def slice_name(pool: str, number: int) -> str:
    return f"{pool}-slice-{number}"


def _device(rng: Random, number: int, kind: str) -> Body:
    device: Body = {
        "name": f"dev-{number}",
        "attributes": {"model": {"string": rng.choice(MODELS)}, "numa": {"int": rng.randrange(2)}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    if kind == "shared":
        device["allowMultipleAllocations"] = True
    elif kind == "parts":
        memory, engines = rng.choice((("10Gi", "1"), ("10Gi", "1"), ("20Gi", "2")))
        drawn = {"memory": {"value": memory}, "engines": {"value": engines}}
        device["consumesCounters"] = [{"counterSet": COUNTER_SET, "counters": drawn}]
    if rng.random() < 0.1:
        device["taints"] = [TAINT]
    if rng.random() < 0.15:
        device |= {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
        device["bindsToNode"] = rng.random() < 0.5
    return device


def random_taint_rule(rng: Random, name: str) -> Body:
    """A rule that taints all devices of a model or of a pool, or one device of every pool."""
    selector: Body = rng.choice(
        ({}, {"pool": f"node-{rng.randrange(6)}"}, {"device": f"dev-{rng.randrange(3)}"})
    )
    effect = rng.choice(("NoSchedule", "NoSchedule", "NoExecute"))
    spec = {"deviceSelector": {"driver": DRIVER, **selector}, "taint": {**TAINT, "effect": effect}}
    return {"metadata": {"name": name}, "spec": spec}


def random_claim_spec(rng: Random) -> Body:
    """One or two requests, perhaps with a selector, alternatives, a capacity, a toleration, a constraint."""
    requests = [_request(rng, f"r{number}") for number in range(rng.choice((1, 1, 1, 2)))]
    devices: Body = {"requests": requests}
    if rng.random() < 0.3:
        kind = rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        devices["constraints"] = [{kind: f"{DRIVER}/{rng.choice(('model', 'numa'))}"}]
    return {"devices": devices}


def _request(rng: Random, name: str) -> Body:
    if rng.random() < 0.2:
        alternatives = [{**_asked(rng), "name": f"{name}-{place}"} for place in range(2)]
        return {"name": name, "firstAvailable": alternatives}
    asked = _asked(rng)
    if rng.random() < 0.05:
        asked["adminAccess"] = True
    return {"name": name, "exactly": asked}


def _asked(rng: Random) -> Body:
    count = rng.choice((1, 1, 1, 2))
    asked: Body = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    if rng.random() < 0.1:
        asked |= {"allocationMode": "All", "count": 0}
    if rng.random() < 0.4:
        expression = f'device.attributes["{DRIVER}"].model == "{rng.choice(MODELS)}"'
        asked["selectors"] = [{"cel": {"expression": expression}}]
    if rng.random() < 0.5:
        asked["capacity"] = {"requests": {"memory": rng.choice(("10Gi", "20Gi"))}}
    if rng.random() < 0.2:
        asked["tolerations"] = [{"operator": "Exists", "key": TAINT["key"]}]
    return asked


def random_resource_claim(rng: Random, name: str) -> Body:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": random_claim_spec(rng)}


def random_claim_template(rng: Random, name: str) -> Body:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"spec": random_claim_spec(rng)}}


def with_devices(rng: Random, pod: Body, templates: list[str], claims: list[str]) -> Body:
    """A pod that also asks for devices: by a template, by a claim of several pods, or as a resource."""
    spec = {**pod["spec"]}
    kind = rng.randrange(10)
    if kind < 3:
        container = {**spec["containers"][0]}
        asked = {EXTENDED_RESOURCE: rng.choice(("1", "1", "2"))}
        container["resources"] = {"requests": {**container["resources"]["requests"], **asked}}
        spec["containers"] = [container]
        return {**pod, "spec": spec}
    entries: list[Body] = []
    if kind < 9:
        entries.append({"name": "own", "resourceClaimTemplateName": rng.choice(templates)})
    if kind > 6:
        entries.append({"name": "common", "resourceClaimName": rng.choice(claims)})
    spec["resourceClaims"] = entries
    return {**pod, "spec": spec}
