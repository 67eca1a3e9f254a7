"""Every field a scheduler reads, driven to the extremes that an API server accepts.

An `Extreme` changes one field of one kind of object. `size` is how many entries a list or map gets: 10,000
by command, fewer in the test suite; objects stay below the size limit of an API server in either case.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.testing.builders import HOSTNAME, ZONE

Json = dict[str, Any]

LARGEST_OBJECT: Final = 1_400_000
"""Bytes of an object; etcd takes up to 1.5 MiB."""

AMOUNTS: Final = (
    "0",
    "1n",
    "1u",
    "1m",
    "999999999n",
    "0.1",
    "1",
    "1500m",
    "64Mi",
    "1e3",
    "1Ti",
    "1E",
    "3Ei",
    "4611686018427387904",
    "7Ei",
    "9223372036854775807",
    "9Ei",
    "1e400",
    "1e1000000",
    "1e-1000000",
)
WHOLE: Final = ("0", "1", "1000", "4611686018427387904", "9223372036854775807", "7E")
CPUS: Final = (*AMOUNTS[:11], "9223372036854775", "1e-1000000")
"""Beyond this the thousandths of a CPU do not fit an int64, and count as kube-scheduler counts them."""
NUMBERS: Final = ("0", "1", "007", "9223372036854775807")
MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations of one object."""
INT32_MAX: Final = 2**31 - 1
UNICODE: Final = "ünïcödé-\U0001f600-\u202e-\x7f-𝕏"
PRIORITIES: Final = {"lowest": -(2**31), "low": -1, "high": 1_000_000, "highest": 1_000_000_000}
"""The priority classes of a run, by name."""
NAMESPACES: Final = ("fuzz", "other")
APPS: Final = ("a", "b", "c")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

Change = Callable[[Random, int, Json], None]


class Extreme(NamedTuple):
    """One field of one kind of object, and what drives it to an extreme."""

    resource: Resource
    field: str
    change: Change


_found: list[Extreme] = []


def _extreme(resource: Resource, field: str) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        _found.append(Extreme(resource, field, change))
        return change

    return register


def _count(rng: Random, size: int) -> int:
    return rng.choice((1, 2, size // 10 + 1, size, size))


def _keys(rng: Random, size: int) -> list[str]:
    """Label keys: mostly ones that no object has, some that all nodes have, some as long as they may be."""
    unique = rng.getrandbits(32)
    keys = [f"k{unique:x}-{number}" for number in range(_count(rng, size))]
    if rng.random() < 0.3:
        keys.append("example.com/" + "x" * 63)
    if rng.random() < 0.3:
        keys += [HOSTNAME, ZONE, "disk"]
    return keys


def _value(rng: Random) -> str:
    return rng.choice(
        ("", "v", "a", "ssd", "zone-1", "9" * 63, "9223372036854775807", f"{rng.getrandbits(60)}")
    )


def _labels(rng: Random, size: int) -> dict[str, str]:
    return {key: _value(rng) for key in _keys(rng, size)}


def _requirement(rng: Random, key: str, operators: tuple[str, ...], values: int = 1) -> Json:
    operator = rng.choice(operators)
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [rng.choice(NUMBERS)]}
    return {"key": key, "operator": operator, "values": [_value(rng), *(f"v{n}" for n in range(values - 1))]}


def selector(rng: Random, size: int) -> Json:
    """A label selector with many labels, many expressions, many values, or nothing in it."""
    form = rng.randrange(5)
    if form == 0:
        return {}
    if form == 1:
        return {"matchLabels": _labels(rng, size)}
    if form == 2:
        return {"matchLabels": {"app": rng.choice(APPS)}}
    if form == 3:
        return {"matchExpressions": [_requirement(rng, "app", ("In", "NotIn"), _count(rng, size))]}
    return {"matchExpressions": [_requirement(rng, key, _OPERATORS) for key in _keys(rng, size)]}


# Metadata, of every kind


def _metadata_labels(rng: Random, size: int, body: Json) -> None:
    body["metadata"].setdefault("labels", {}).update(_labels(rng, size))


def _annotations(rng: Random, size: int, body: Json) -> None:
    values = {f"note-{number}": UNICODE for number in range(min(_count(rng, size), 3000))}
    body["metadata"].setdefault("annotations", {}).update(values)


def _full_annotations(rng: Random, size: int, body: Json) -> None:
    """As many bytes as all annotations of an object may have together."""
    body["metadata"]["annotations"] = {"note": "x" * (rng.choice((size, MOST_ANNOTATIONS)) - len("note"))}


def _deep_fields(rng: Random, size: int, body: Json) -> None:
    """As deep as the embedded API server takes it; deeper objects are in corpus_limits.py."""
    fields: Json = {}
    for _ in range(rng.choice((10, 80))):
        fields = {"f:a": fields}
    entry = {"manager": "fuzz", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    body["metadata"]["managedFields"] = [entry]


def _owners(rng: Random, size: int, body: Json) -> None:
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"o{n}", "uid": f"u{n}", "controller": n == 0}
        for n in range(_count(rng, size))
    ]


# Pods


@_extreme(catalogue.PODS, "spec.nodeSelector")
def _node_selector(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["nodeSelector"] = _labels(rng, size)


@_extreme(catalogue.PODS, "spec.nodeSelector (satisfiable)")
def _easy_node_selector(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}


def _node_term(rng: Random, size: int) -> Json:
    operators = (*_OPERATORS, "Gt", "Lt")
    form = rng.randrange(4)
    if form == 0:
        return {"matchExpressions": [_requirement(rng, key, operators) for key in _keys(rng, size)]}
    if form == 1:
        return {"matchExpressions": [_requirement(rng, "disk", ("In", "NotIn"), _count(rng, size))]}
    if form == 2:
        name = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": ["node-1"]}
        return {"matchFields": [name]}
    return {"matchExpressions": [_requirement(rng, rng.choice((ZONE, HOSTNAME, "generation")), operators)]}


def _affinity(pod: Json, kind: str) -> Json:
    affinity: Json = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return affinity


@_extreme(catalogue.PODS, "spec.affinity.nodeAffinity.required")
def _required_node_affinity(rng: Random, size: int, pod: Json) -> None:
    many = rng.random() < 0.5
    terms = [_node_term(rng, 2 if many else size) for _ in range(_count(rng, size) if many else 1)]
    _affinity(pod, "nodeAffinity")[_REQUIRED] = {"nodeSelectorTerms": terms}


@_extreme(catalogue.PODS, "spec.affinity.nodeAffinity.preferred")
def _preferred_node_affinity(rng: Random, size: int, pod: Json) -> None:
    _affinity(pod, "nodeAffinity")[_PREFERRED] = [
        {"weight": rng.choice((1, 100)), "preference": _node_term(rng, 2)} for _ in range(_count(rng, size))
    ]


def _pod_term(rng: Random, size: int) -> Json:
    term: Json = {
        "topologyKey": rng.choice((HOSTNAME, ZONE, f"nobody-has-{rng.getrandbits(20)}")),
        "labelSelector": selector(rng, size),
    }
    form = rng.randrange(4)
    if form == 0:
        term["namespaces"] = [*NAMESPACES, *(f"ns-{n}" for n in range(_count(rng, size)))]
    elif form == 1:
        term["namespaceSelector"] = selector(rng, size)
    return term


def _pod_terms(rng: Random, size: int) -> list[Json]:
    many = rng.random() < 0.5
    return [_pod_term(rng, 2 if many else size) for _ in range(_count(rng, size) if many else 1)]


@_extreme(catalogue.PODS, "spec.affinity.podAffinity.required")
def _required_affinity(rng: Random, size: int, pod: Json) -> None:
    _affinity(pod, "podAffinity")[_REQUIRED] = _pod_terms(rng, size)


@_extreme(catalogue.PODS, "spec.affinity.podAntiAffinity.required")
def _required_anti_affinity(rng: Random, size: int, pod: Json) -> None:
    _affinity(pod, "podAntiAffinity")[_REQUIRED] = _pod_terms(rng, size)


@_extreme(catalogue.PODS, "spec.affinity.podAffinity.preferred")
def _preferred_affinity(rng: Random, size: int, pod: Json) -> None:
    _affinity(pod, rng.choice(("podAffinity", "podAntiAffinity")))[_PREFERRED] = [
        {"weight": rng.choice((1, 100)), "podAffinityTerm": term} for term in _pod_terms(rng, size)
    ]


@_extreme(catalogue.PODS, "spec.topologySpreadConstraints")
def _spread(rng: Random, size: int, pod: Json) -> None:
    keys = dict.fromkeys([rng.choice((HOSTNAME, ZONE)), *_keys(rng, size // 10)])
    pod["spec"]["topologySpreadConstraints"] = [_constraint(rng, size, key) for key in keys]


@_extreme(catalogue.PODS, "spec.topologySpreadConstraints (one)")
def _one_spread(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["topologySpreadConstraints"] = [_constraint(rng, size, rng.choice((HOSTNAME, ZONE)))]


def _constraint(rng: Random, size: int, key: str) -> Json:
    hard = rng.random() < 0.5
    constraint: Json = {
        "topologyKey": key,
        "maxSkew": rng.choice((1, 2, INT32_MAX)),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector(rng, 3),
    }
    if hard and rng.random() < 0.5:
        constraint["minDomains"] = rng.choice((1, 3, INT32_MAX))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if rng.random() < 0.3:
            constraint[policy] = rng.choice(("Honor", "Ignore"))
    return constraint


@_extreme(catalogue.PODS, "spec.tolerations")
def _tolerations(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["tolerations"] = [_toleration(rng, key) for key in _keys(rng, size)]
    if rng.random() < 0.3:
        pod["spec"]["tolerations"].append({"operator": "Exists"})


def _toleration(rng: Random, key: str) -> Json:
    toleration: Json = {"key": key, "operator": rng.choice(("Exists", "Equal"))}
    if toleration["operator"] == "Equal":
        toleration["value"] = _value(rng)
    if rng.random() < 0.5:
        toleration |= {"effect": "NoExecute", "tolerationSeconds": rng.choice((-(2**63), 0, 2**63 - 1))}
    return toleration


def _amount(rng: Random, resource: str) -> str:
    return rng.choice(CPUS if resource == "cpu" else AMOUNTS)


def _requests(rng: Random) -> Json:
    names = rng.sample(("cpu", "memory", "ephemeral-storage", "hugepages-2Mi"), rng.randrange(1, 5))
    amounts = {name: _amount(rng, name) for name in names}
    pages = amounts.pop("hugepages-2Mi", None)
    if pages is None:
        return {"requests": amounts}
    pages = rng.choice(("2Mi", "1Gi", "7Ei"))
    return {"requests": {**amounts, "hugepages-2Mi": pages}, "limits": {"hugepages-2Mi": pages}}


@_extreme(catalogue.PODS, "spec.containers[].resources")
def _resources(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["containers"][0]["resources"] = _requests(rng)


@_extreme(catalogue.PODS, "spec.containers")
def _containers(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["containers"][1:] = [
        {"name": f"c{n}", "image": f"i{n}", "resources": _requests(rng) if n < 5 else {}}
        for n in range(min(_count(rng, size), 5000))
    ]


@_extreme(catalogue.PODS, "spec.initContainers")
def _init_containers(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["initContainers"] = [
        {
            "name": f"init{n}",
            "image": "i",
            "resources": _requests(rng),
            **({"restartPolicy": "Always"} if rng.random() < 0.5 else {}),
        }
        for n in range(min(_count(rng, size), 5000))
    ]


@_extreme(catalogue.PODS, "spec.containers[].resources.limits (extended resources)")
def _extended(rng: Random, size: int, pod: Json) -> None:
    unique = rng.getrandbits(24)
    amount = rng.choice(WHOLE)
    names = {f"example.com/r{unique:x}-{n}": amount for n in range(_count(rng, size))}
    if rng.random() < 0.3:
        names["example.com/gpu"] = rng.choice(WHOLE)
    pod["spec"]["containers"][0]["resources"] = {"limits": names, "requests": names}


@_extreme(catalogue.PODS, "spec.overhead")
def _overhead(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["overhead"] = {name: _amount(rng, name) for name in ("cpu", "memory")}


@_extreme(catalogue.PODS, "spec.resources")
def _pod_level(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["containers"][0]["resources"] = {}
    pod["spec"]["resources"] = {"requests": {name: _amount(rng, name) for name in ("cpu", "memory")}}


@_extreme(catalogue.PODS, "spec.containers[].ports")
def _ports(rng: Random, size: int, pod: Json) -> None:
    first = rng.randrange(1, 100)
    pod["spec"]["containers"][0]["ports"] = [
        {
            "containerPort": port,
            "hostPort": port,
            "protocol": rng.choice(("TCP", "UDP", "SCTP")),
            **({"hostIP": rng.choice(("0.0.0.0", "127.0.0.1", "::1"))} if rng.random() < 0.5 else {}),
        }
        for port in range(first, min(first + _count(rng, size), 65536))
    ]


@_extreme(catalogue.PODS, "spec.priorityClassName")
def _priority(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["priorityClassName"] = rng.choice(tuple(PRIORITIES))


@_extreme(catalogue.PODS, "spec.schedulingGates")
def _gates(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["schedulingGates"] = [{"name": key} for key in _keys(rng, size)]


@_extreme(catalogue.PODS, "spec.containers[].image")
def _image(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["containers"][0]["image"] = rng.choice((UNICODE, "x" * size, f"image-{rng.randrange(5)}"))


@_extreme(catalogue.PODS, "spec.volumes")
def _volumes(rng: Random, size: int, pod: Json) -> None:
    pod["spec"]["volumes"] = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"claim-{n}"}}
        for n in range(_count(rng, size))
    ]


@_extreme(catalogue.PODS, "spec.volumes (one claim)")
def _claim(rng: Random, size: int, pod: Json) -> None:
    claim = {"claimName": f"claim-{rng.randrange(3)}"}
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]


@_extreme(catalogue.PODS, "spec.volumes (in-tree, inline)")
def _disks(rng: Random, size: int, pod: Json) -> None:
    sources: tuple[Json, ...] = (
        {"gcePersistentDisk": {"pdName": UNICODE}},
        {"awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"iscsi": {"targetPortal": "t", "iqn": "iqn", "lun": INT32_MAX}},
        {"rbd": {"monitors": [f"m{n}" for n in range(min(size, 1000))], "image": "i"}},
        {"csi": {"driver": "csi.example.com"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    )
    pod["spec"]["volumes"] = [
        {"name": f"v{n}", **rng.choice(sources)} for n in range(min(_count(rng, size), 2000))
    ]


# Nodes


@_extreme(catalogue.NODES, "spec.taints")
def _taints(rng: Random, size: int, node: Json) -> None:
    node["spec"]["taints"] = [
        {"key": key, "value": _value(rng), "effect": rng.choice(_EFFECTS)} for key in _keys(rng, size)
    ]


@_extreme(catalogue.NODES, "spec.unschedulable")
def _cordon(rng: Random, size: int, node: Json) -> None:
    node["spec"]["unschedulable"] = True


@_extreme(catalogue.NODES, "status.allocatable")
def _allocatable(rng: Random, size: int, node: Json) -> None:
    amounts = {name: _amount(rng, name) for name in ("cpu", "memory", "ephemeral-storage")}
    amounts["pods"] = rng.choice(("0", "1", "110", "9223372036854775807"))
    node["status"]["allocatable"] = node["status"]["capacity"] = amounts


@_extreme(catalogue.NODES, "status.allocatable (extended resources)")
def _offered(rng: Random, size: int, node: Json) -> None:
    unique = rng.getrandbits(24)
    more = {f"example.com/n{unique:x}-{n}": rng.choice(WHOLE) for n in range(_count(rng, size))}
    node["status"]["allocatable"] = {**node["status"].get("allocatable", {}), **more}


@_extreme(catalogue.NODES, "status.images")
def _images(rng: Random, size: int, node: Json) -> None:
    node["status"]["images"] = [
        {"names": [f"image-{n}", f"{UNICODE}-{n}"], "sizeBytes": rng.choice((0, 1, 2**63 - 1))}
        for n in range(_count(rng, size))
    ]


@_extreme(catalogue.NODES, "status (empty)")
def _empty_status(rng: Random, size: int, node: Json) -> None:
    node["status"] = {}


# Storage


@_extreme(catalogue.PERSISTENT_VOLUMES, "spec.capacity")
def _volume_capacity(rng: Random, size: int, volume: Json) -> None:
    volume["spec"]["capacity"] = {"storage": rng.choice(AMOUNTS[1:])}


@_extreme(catalogue.PERSISTENT_VOLUMES, "spec.nodeAffinity")
def _volume_affinity(rng: Random, size: int, volume: Json) -> None:
    terms = [_node_term(rng, 2) for _ in range(_count(rng, size))]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}


@_extreme(catalogue.PERSISTENT_VOLUMES, "metadata.labels (zones)")
def _volume_zones(rng: Random, size: int, volume: Json) -> None:
    volume["metadata"]["labels"] = {ZONE: "__".join(f"z{n}" for n in range(12))}


@_extreme(catalogue.PERSISTENT_VOLUMES, "spec.csi")
def _volume_handle(rng: Random, size: int, volume: Json) -> None:
    volume["spec"].pop("hostPath", None)
    volume["spec"]["csi"] = {"driver": "csi.example.com", "volumeHandle": UNICODE * min(size, 100)}


@_extreme(catalogue.PERSISTENT_VOLUME_CLAIMS, "spec.selector")
def _claim_selector(rng: Random, size: int, claim: Json) -> None:
    claim["spec"]["selector"] = selector(rng, size)


@_extreme(catalogue.PERSISTENT_VOLUME_CLAIMS, "spec.resources")
def _claim_size(rng: Random, size: int, claim: Json) -> None:
    claim["spec"]["resources"] = {"requests": {"storage": rng.choice(AMOUNTS[1:])}}


@_extreme(catalogue.PERSISTENT_VOLUME_CLAIMS, "spec.accessModes")
def _claim_modes(rng: Random, size: int, claim: Json) -> None:
    claim["spec"]["accessModes"] = [rng.choice(_MODES)]


@_extreme(catalogue.PERSISTENT_VOLUME_CLAIMS, "spec.volumeName")
def _claim_volume(rng: Random, size: int, claim: Json) -> None:
    claim["spec"]["volumeName"] = rng.choice(("volume-0", "nowhere", "x" * 200))
    claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"


@_extreme(catalogue.STORAGE_CLASSES, "allowedTopologies")
def _topologies(rng: Random, size: int, storage_class: Json) -> None:
    storage_class["allowedTopologies"] = [
        {"matchLabelExpressions": [{"key": ZONE, "values": [f"z{n}", "zone-1"]}]}
        for n in range(_count(rng, size))
    ]


@_extreme(catalogue.STORAGE_CLASSES, "parameters")
def _parameters(rng: Random, size: int, storage_class: Json) -> None:
    storage_class["parameters"] = {f"p{n}": UNICODE for n in range(min(size, 512))}


@_extreme(catalogue.CSI_NODES, "spec.drivers")
def _drivers(rng: Random, size: int, csi_node: Json) -> None:
    csi_node["spec"]["drivers"] = [
        {
            "name": "csi.example.com" if n == 0 else f"d{n}.example.com",
            "nodeID": UNICODE,
            "topologyKeys": [ZONE],
            "allocatable": {"count": rng.choice((0, 1, INT32_MAX))},
        }
        for n in range(min(_count(rng, size), 5000))
    ]


@_extreme(catalogue.CSI_DRIVERS, "spec.storageCapacity")
def _tracked(rng: Random, size: int, driver: Json) -> None:
    driver["spec"] = {"storageCapacity": True}


@_extreme(catalogue.CSI_STORAGE_CAPACITIES, "nodeTopology")
def _capacity_topology(rng: Random, size: int, capacity: Json) -> None:
    capacity["nodeTopology"] = selector(rng, size)


@_extreme(catalogue.CSI_STORAGE_CAPACITIES, "capacity")
def _capacity_amounts(rng: Random, size: int, capacity: Json) -> None:
    capacity |= {"capacity": rng.choice(AMOUNTS), "maximumVolumeSize": rng.choice(AMOUNTS)}


# Selectors of everything else


def _spec_selector(rng: Random, size: int, body: Json) -> None:
    body["spec"]["selector"] = selector(rng, size)


def _spec_labels(rng: Random, size: int, body: Json) -> None:
    body["spec"]["selector"] = _labels(rng, size)


_extreme(catalogue.POD_DISRUPTION_BUDGETS, "spec.selector")(_spec_selector)
_extreme(catalogue.SERVICES, "spec.selector")(_spec_labels)


@_extreme(catalogue.REPLICATION_CONTROLLERS, "spec.selector")
def _controlled(rng: Random, size: int, body: Json) -> None:
    labels = _labels(rng, size)
    body["spec"]["selector"] = labels
    body["spec"]["template"] = {**body["spec"]["template"], "metadata": {"labels": labels}}


@_extreme(catalogue.REPLICA_SETS, "spec.selector")
@_extreme(catalogue.STATEFUL_SETS, "spec.selector")
def _owned(rng: Random, size: int, body: Json) -> None:
    labels = _labels(rng, size)
    body["spec"]["selector"] = {"matchLabels": labels}
    body["spec"]["template"] = {**body["spec"]["template"], "metadata": {"labels": labels}}


KINDS: Final = (
    catalogue.PODS,
    catalogue.NODES,
    catalogue.PERSISTENT_VOLUMES,
    catalogue.PERSISTENT_VOLUME_CLAIMS,
    catalogue.STORAGE_CLASSES,
    catalogue.CSI_NODES,
    catalogue.CSI_DRIVERS,
    catalogue.CSI_STORAGE_CAPACITIES,
    catalogue.POD_DISRUPTION_BUDGETS,
    catalogue.SERVICES,
    catalogue.REPLICATION_CONTROLLERS,
    catalogue.REPLICA_SETS,
    catalogue.STATEFUL_SETS,
    catalogue.NAMESPACES,
    catalogue.PRIORITY_CLASSES,
)
for _kind in KINDS:
    _extreme(_kind, "metadata.labels")(_metadata_labels)
    _extreme(_kind, "metadata.annotations")(_annotations)
    _extreme(_kind, "metadata.annotations (256 KiB)")(_full_annotations)
    _extreme(_kind, "metadata.managedFields")(_deep_fields)
    _extreme(_kind, "metadata.ownerReferences")(_owners)

EXTREMES: Final = tuple(_found)
"""Every field, of every kind."""


def extremes_of(resource: Resource) -> list[Extreme]:
    return [one for one in EXTREMES if one.resource == resource]
