"""Explanations of devices: the request, the selector, the pod that has the device, and remedies."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stowplan.api.decode import convert_any
from stowplan.config.build import default_profile
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.terminal.pod import render
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load

Json = dict[str, Any]
DRIVER = "gpu.example.com"
BAD = {"key": "example.com/health", "value": "bad", "effect": "NoSchedule"}
H100 = f'device.attributes["{DRIVER}"].model == "h100"'


def node(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    }


def pod(name: str, *claims: str, on: str = "", resources: Mapping[str, str] = {}) -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": dict(resources)}}
    asked = [{"name": one, "resourceClaimName": one} for one in claims]
    spec = {"containers": [container], "resourceClaims": asked, **({"nodeName": on} if on else {})}
    metadata = {"name": name, "namespace": "lab", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def device_class(selector: str = f'device.driver == "{DRIVER}"') -> Json:
    spec = {"selectors": [{"cel": {"expression": selector}}], "extendedResourceName": "example.com/gpu"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": spec,
    }


def gpu(name: str, model: str = "h100", link: str = "a", **about: Any) -> Json:
    attributes = {"model": {"string": model}, "link": {"string": link}}
    return {"name": name, "attributes": attributes, **about}


def slice_of(node: str, devices: Sequence[Json] = (), *, slices: int = 1, **spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{'counters' if 'sharedCounters' in spec else 'devices'}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": slices},
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def asked(name: str = "gpu", count: int = 1, **more: Any) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    return {"name": name, "exactly": exactly}


def where(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


def claim(
    name: str, *requests: Json, has: Sequence[str] = (), of: str = "", constraints: Sequence[Json] = ()
) -> Json:
    """A claim; one that `has` devices (`node/device`, or `node/device=memory` of a share) of a pod."""
    status: Json = {}
    if has:
        results = []
        for one in has:
            pool, _, rest = one.partition("/")
            device, _, share = rest.partition("=")
            result: Json = {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device}
            if share:
                result |= {"shareID": name, "consumedCapacity": {"memory": share}}
            results.append(result)
        fields = [{"key": "metadata.name", "operator": "In", "values": [has[0].partition("/")[0]]}]
        status["allocation"] = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        }
    if of:
        status["reservedFor"] = [{"resource": "pods", "name": of, "uid": of}]
    devices: Json = {"requests": list(requests or [asked()]), "constraints": list(constraints)}
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
        "status": status,
    }


def explained(objects: Sequence[Json], wanting: Json | None = None) -> PodDocument:
    table = ClusterTable()
    load(table, [obj for one in objects if (obj := convert_any(one)) is not None])
    framework = Framework(default_profile(), table, in_tree_registry())
    info = convert_any(wanting or pod("p", "c"))
    assert info is not None
    before = _state(table)
    found = Explainer(framework, "test").explain(table.info(info))  # type: ignore[arg-type]
    assert _state(table) == before, "an explanation leaves nothing behind"
    return found


def _state(table: ClusterTable) -> Any:
    claims = table.devices.claims
    allocated = claims.allocated
    return (
        list(claims.all()),
        dict(allocated.devices),
        dict(allocated.shared),
        {
            device: {name: str(left) for name, left in one.items()}
            for device, one in allocated.capacity.items()
        },
        len(table.devices.slices),
        table.node_count,
    )


ONE = [node("n"), device_class()]
COUNTERS = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]


def part(name: str, memory: str) -> Json:
    drawn = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
    return gpu(name, consumesCounters=drawn)


SHARED: Json = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
CASES: dict[str, tuple[list[Json], str, str, list[str]]] = {
    "taken": (
        [
            slice_of("n", [gpu("g0"), gpu("g1")]),
            claim("c", asked(count=2)),
            pod("q", "d", on="n"),
            claim("d", has=["n/g0"], of="q"),
        ],
        "1 of 2 devices for gpu",
        "request gpu: 1 of 2 devices free, 1 taken by lab/q (claim d)",
        ["ask for 1 (now 2) in request gpu of claim c", "lab/q ends", "one more node like n"],
    ),
    "taken by nobody": (
        [slice_of("n", [gpu("g0")]), claim("c"), claim("old", has=["n/g0"])],
        "0 of 1 devices for gpu",
        "request gpu: 0 of 1 devices free, 1 taken by claim lab/old",
        ["claim lab/old is deleted, nobody uses it", "one more node like n"],
    ),
    "part of a selector": (
        [
            slice_of("n", [gpu("g0", "a100"), gpu("g1", "v100")]),
            claim("c", asked(**where(f'device.driver == "{DRIVER}" && {H100}'))),
        ],
        "0 of 1 devices for gpu",
        f'request gpu: 0 of 2 devices free, 1 where {H100} is false (model "a100"), '
        f'1 where {H100} is false (model "v100")',
        [f"drop {H100} from request gpu of claim c"],
    ),
    "selector of the class": (
        [slice_of("n", [gpu("g0", "a100")]), claim("c"), device_class(H100)],
        "0 of 1 devices for gpu",
        f'request gpu: 0 of 1 devices free, 1 where {H100} is false (model "a100") (selector of class gpu)',
        [],
    ),
    "tainted": (
        [slice_of("n", [gpu("g0", taints=[BAD])]), claim("c")],
        "0 of 1 devices for gpu",
        "request gpu: 0 of 1 devices free, 1 tainted example.com/health=bad:NoSchedule",
        ["tolerate example.com/health=bad:NoSchedule in request gpu of claim c"],
    ),
    "constraint": (
        [
            slice_of("n", [gpu("g0", link="a"), gpu("g1", link="b")]),
            claim("c", asked(count=2), constraints=[{"matchAttribute": f"{DRIVER}/link"}]),
        ],
        "constraint",
        f"claim c: matchAttribute {DRIVER}/link wants one value for 2 devices; "
        'free are 1 with "a", 1 with "b"',
        ["ask for 1 (now 2) in request gpu of claim c", f"drop the constraint on {DRIVER}/link from claim c"],
    ),
    "counters": (
        [
            slice_of("n", [part("g0", "30Gi"), part("g1", "20Gi")], slices=2),
            slice_of("n", slices=2, sharedCounters=COUNTERS),
            claim("c"),
            pod("q", "d", on="n"),
            claim("d", has=["n/g0"], of="q"),
        ],
        "0 of 1 devices for gpu",
        "request gpu: 0 of 2 devices free, 1 taken by lab/q (claim d), "
        "1 where counter memory of card has 10Gi left, it draws 20Gi",
        ["lab/q ends"],
    ),
    "counters together": (
        [
            slice_of("n", [part("g0", "30Gi"), part("g1", "20Gi")], slices=2),
            slice_of("n", slices=2, sharedCounters=COUNTERS),
            claim("c", asked(count=2)),
        ],
        "2 of 2 devices for gpu",
        "request gpu: 2 of 2 devices free; their counters do not allow as many at once",
        ["ask for 1 (now 2) in request gpu of claim c"],
    ),
    "capacity": (
        [
            slice_of("n", [gpu("g0", **SHARED)]),
            pod("q", "d", on="n"),
            claim("d", has=["n/g0=30Gi"], of="q"),
            claim("c", asked(capacity={"requests": {"memory": "20Gi"}})),
        ],
        "0 of 1 devices for gpu",
        "request gpu: 0 of 1 devices free, 1 where memory 20Gi wanted, 10Gi of 40Gi left "
        "(shared by lab/q (claim d))",
        ["ask for memory 10Gi (now 20Gi) in request gpu of claim c", "lab/q ends", "one more node like n"],
    ),
    "incomplete pool": (
        [slice_of("n", [gpu("g0")], slices=2), claim("c")],
        "pool not usable",
        f"pool {DRIVER}/n is incomplete: 1 of 2 slices",
        [],
    ),
    "no devices": ([claim("c")], "no devices", "claim c: the node has no devices", []),
    "two requests": (
        [
            slice_of("n", [gpu("g0"), gpu("g1", "a100")]),
            claim("c", asked("one"), asked("big", **where(H100)), constraints=()),
            pod("q", "d", on="n"),
            claim("d", has=["n/g1"], of="q"),
        ],
        "1 of 1 devices for big",
        f'request big: 1 of 2 devices free, 1 where {H100} is false (model "a100"); '
        "not as many are left next to request one",
        ["lab/q ends", "one more node like n"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_in_the_way_of_a_claim_and_what_would_help(name: str) -> None:
    objects, missing, detail, changes = CASES[name]
    found = explained([*ONE, *objects])
    [miss] = found.near_misses
    assert (miss.missing, miss.detail) == (missing, detail)
    texts = [change.text for change in found.changes]
    assert [text for text in changes if text not in texts] == [], texts


def test_a_document_has_every_device_and_its_cause() -> None:
    objects, *_ = CASES["taken"]
    [miss] = explained([*ONE, *objects]).document()["nearMisses"]
    assert miss["devices"] == [
        {
            "device": f"{DRIVER}/n/g0",
            "claim": "lab/c",
            "request": "gpu",
            "cause": "taken",
            "detail": "taken by lab/q (claim d)",
        },
        {"device": f"{DRIVER}/n/g1", "claim": "lab/c", "request": "gpu", "cause": "usable"},
    ]


def test_a_change_of_a_claim_names_the_claim_and_has_its_patch() -> None:
    objects, *_ = CASES["tainted"]
    changes = explained([*ONE, *objects]).document()["changes"]
    [change] = [one for one in changes if one["kind"] == "deviceToleration"]
    assert change["claim"] == "lab/c"
    [request] = change["patch"]["spec"]["devices"]["requests"]
    assert request["exactly"]["tolerations"] == [{**BAD, "operator": "Equal"}]


def test_alternatives_are_told_one_by_one() -> None:
    big, small = asked(count=2)["exactly"], asked(**where(H100))["exactly"]
    request = {"name": "r", "firstAvailable": [{"name": "big", **big}, {"name": "small", **small}]}
    found = explained([*ONE, slice_of("n", [gpu("g0", "a100")]), claim("c", request)])
    [miss] = found.near_misses
    assert miss.detail == (
        "request r/big: 1 of 1 devices free; "
        f'request r/small: 0 of 1 devices free, 1 where {H100} is false (model "a100")'
    )


def test_an_error_names_the_device() -> None:
    expression = f'device.attributes["{DRIVER}"].cores > 4'
    found = explained([*ONE, slice_of("n", [gpu("g0")]), claim("c", asked(**where(expression)))])
    assert "CEL runtime error: no such key: cores" in found.message
    assert found.message.endswith(f"(device {DRIVER}/n/g0, request gpu, on n)")
    assert f"{DRIVER}/n/g0" in render(found).replace("\n", " ")


def test_more_devices_than_a_claim_can_have_end_the_attempt_before_fewer_are_tried() -> None:
    """Remedies try every smaller number, which are few because of this."""
    found = explained([*ONE, slice_of("n", [gpu("g0")]), claim("c", asked(count=10**15))])
    assert f"number of requested devices {10**15} exceeds the claim limit of 32" in found.message
    assert not found.near_misses


def test_a_claim_with_devices_elsewhere_says_where_and_who_uses_it() -> None:
    objects = [*ONE, node("m"), slice_of("m", [gpu("g0")]), pod("q", "c", on="m")]
    full = {**node("m"), "spec": {"unschedulable": True}}
    found = explained([*objects, full, claim("c", has=["m/g0"], of="q")])
    miss = next(one for one in found.near_misses if one.node == "n")
    assert miss.missing == "claim elsewhere"
    assert miss.detail == "claim c has m/g0; it is reserved for lab/q (claim c)"
    assert "claim c: c has m/g0, reserved for lab/q" in render(found)


def test_an_extended_resource_is_told_like_a_claim() -> None:
    wanting = pod("p", resources={"example.com/gpu": "2"})
    found = explained([*ONE, slice_of("n", [gpu("g0")])], wanting)
    [miss] = found.near_misses
    assert miss.missing == "1 of 2 devices for container-0-request-0"
    [change] = [one for one in found.changes if one.kind == "requests"]
    assert change.text == "request 1 example.com/gpu (now 2)"


def test_a_resource_that_devices_provide_is_not_larger_than_any_node() -> None:
    """No node has any of it allocatable: DynamicResources decides, not the largest node."""
    found = explained([*ONE, slice_of("n", [gpu("g0")])], pod("p", resources={"example.com/gpu": "9"}))
    assert found.too_large == ()
    assert "1 of 9 devices of class gpu free" in found.headline


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ([], "c does not exist"),
        ([claim("c", asked(count=2))], "c is not allocated, asks for 2 of class gpu (gpu)"),
    ],
)
def test_the_state_of_a_claim_comes_first(claims: list[Json], text: str) -> None:
    found = explained([*ONE, *claims])
    assert f"claim c: {text}" in render(found)
