"""Feasibility of a node for a pod: the rules of Kubernetes over JSON objects, one node and pod at a time.

Nothing here is shared with the scheduler: no table, no decoded types, no numpy, amounts as integers of any
size. It is slow and meant to be read next to the Kubernetes documentation. It covers resources (init
containers, sidecars, pod level, overhead), the pod count, taints, cordons, node selectors and affinity, host
ports, affinity and anti-affinity between pods, hard topology spread constraints, and for volumes node
affinity, zone labels and ReadWriteOncePod.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

Json = dict[str, Any]
Rule = Callable[["FeasibleCluster", Json, Json], str | None]

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{letter + "i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_AMOUNT: Final = re.compile(r"([+-]?)(\d*\.?\d*)(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_LARGEST: Final = Fraction(2**63 - 1)
_MAGNITUDE: Final = 60
"""Powers of ten beyond which an amount is more than everything, or less than the smallest unit."""
_ANYWHERE: Final = ("", "0.0.0.0")
_ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_BLOCKING: Final = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass
class FeasibleCluster:
    """The objects a decision depends on. `where` is the node of each pod that has one, by uid."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    namespaces: dict[str, Json] = field(default_factory=dict)
    claims: dict[tuple[str, str], Json] = field(default_factory=dict)
    volumes: dict[str, Json] = field(default_factory=dict)

    def placed(self) -> Iterator[tuple[Json, Json]]:
        """The pods on nodes that exist, each with its node."""
        for uid, name in self.where.items():
            node = self.nodes.get(name)
            if node is not None:
                yield self.pods[uid], node

    def pods_on(self, name: str) -> Iterator[Json]:
        return (self.pods[uid] for uid, where in self.where.items() if where == name)


def objection(cluster: FeasibleCluster, pod: Json, node_name: str) -> str | None:
    """Why the pod must not be bound to the node; None if nothing speaks against it."""
    node = cluster.nodes.get(node_name)
    if node is None:
        return "there is no such node"
    for rule in _RULES:
        problem = rule(cluster, pod, node)
        if problem is not None:
            return problem
    return None


# Amounts


def amount(raw: Any) -> Fraction:
    """A Kubernetes quantity, exactly; what exceeds an int64 is cut to it, as the API server does."""
    matched = _AMOUNT.fullmatch(str(raw).strip())
    if matched is None:
        raise ValueError(f"{raw!r}: expected a quantity")
    sign, digits, exponent, suffix = matched.groups()
    value = _exactly(f"{digits}e{exponent or 0}") * _SUFFIXES[suffix or ""]
    return min(value, _LARGEST) * (-1 if sign == "-" else 1)


def _exactly(text: str) -> Fraction:
    """A decimal number. Of one that is too large or too small to matter only that is kept: the exponent may
    have any number of digits, and the power of ten would take for ever.
    """
    written = Decimal(text)
    if written and abs(written.adjusted()) > _MAGNITUDE:
        return _LARGEST if written.adjusted() > 0 else Fraction(1, 10**_MAGNITUDE)
    return Fraction(written)


def whole(resource: str, raw: Any) -> int:
    """An amount as it is accounted: thousandths of a CPU, whole units of anything else, rounded up."""
    value = amount(raw) * (1000 if resource == "cpu" else 1)
    return -(-value.numerator // value.denominator)


def requests_of(pod: Json) -> dict[str, int]:
    """Amounts a pod takes of every resource."""
    spec = pod["spec"]
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(running, _container_requests(container))
    for container in spec.get("initContainers") or ():
        needs = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, needs)
            _add(sidecars, needs)
            needs = dict(sidecars)
        else:
            _add(needs, sidecars)
        _raise_to(starting, needs)
    _raise_to(running, starting)
    for name, value in _with_defaults(spec.get("resources") or {}).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            running[name] = value
    _add(running, {name: whole(name, raw) for name, raw in (spec.get("overhead") or {}).items()})
    return running


def _container_requests(container: Json) -> dict[str, int]:
    return _with_defaults(container.get("resources") or {})


def _with_defaults(resources: Json) -> dict[str, int]:
    raw = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: whole(name, value) for name, value in raw.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, 0), value)


def _resources(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    offered = (node.get("status") or {}).get("allocatable") or {}
    others = list(cluster.pods_on(node["metadata"]["name"]))
    if len(others) + 1 > whole("pods", offered.get("pods", 0)):
        return f"pods: {len(others)} of {offered.get('pods', 0)} are there already"
    wanted = {name: value for name, value in requests_of(pod).items() if value > 0}
    if not wanted:
        return None
    used: dict[str, int] = {}
    for other in others:
        _add(used, requests_of(other))
    for name, value in wanted.items():
        most = whole(name, offered.get(name, 0))
        if used.get(name, 0) + value > most:
            return f"{name}: {value} more than {used.get(name, 0)} of {most}"
    return None


# Rules about the node


def _taints(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    spec = node.get("spec") or {}
    tolerations = pod["spec"].get("tolerations") or ()
    for taint in spec.get("taints") or ():
        if taint["effect"] in _BLOCKING and not _tolerated(taint, tolerations):
            return f"taint {taint['key']}={taint.get('value', '')}:{taint['effect']}"
    if spec.get("unschedulable") and not _tolerated(_UNSCHEDULABLE, tolerations):
        return "the node is unschedulable"
    return None


def _tolerated(taint: Json, tolerations: Iterable[Json]) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    equal = toleration.get("operator") in (None, "", "Equal")
    return bool(equal and (toleration.get("value") or "") == (taint.get("value") or ""))


def _node_labels(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    return None if _may_run_on(pod, node) else "node selector or node affinity"


def _may_run_on(pod: Json, node: Json) -> bool:
    """True if nodeSelector and required node affinity allow a node."""
    labels = node["metadata"].get("labels") or {}
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    return required is None or _any_term(required.get("nodeSelectorTerms") or (), node)


def _any_term(terms: Iterable[Json], node: Json) -> bool:
    return any(_term_matches(term, node) for term in terms)


def _term_matches(term: Json, node: Json) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_requirement_matches(one, labels) for one in expressions) and all(
        _requirement_matches(one, names) for one in fields
    )


def _requirement_matches(requirement: Json, labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or ()
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator in ("Exists", "DoesNotExist"):
        return bool((key in labels) == (operator == "Exists"))
    here, bound = _int64(labels.get(key)), _int64(values[0] if values else None)
    if here is None or bound is None:
        return False
    return here > bound if operator == "Gt" else here < bound


def _int64(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


# Rules about pods on the node


def _host_ports(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    wanted = list(_ports_of(pod))
    if not wanted:
        return None
    for other in cluster.pods_on(node["metadata"]["name"]):
        for taken in _ports_of(other):
            for port in wanted:
                if _collide(port, taken):
                    return f"host port {port}"
    return None


def _ports_of(pod: Json) -> Iterator[tuple[str, str, int]]:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or "", port.get("protocol") or "TCP", port["hostPort"]


def _collide(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    if one[1:] != other[1:]:
        return False
    return one[0] == other[0] or one[0] in _ANYWHERE or other[0] in _ANYWHERE


# Other pods


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """True if a label selector matches; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_requirement_matches(one, labels) for one in selector.get("matchExpressions") or ())


def _term_selects(cluster: FeasibleCluster, owner: Json, term: Json, other: Json) -> bool:
    """True if an affinity term of one pod selects another pod."""
    here = other["metadata"]["namespace"]
    names, by_labels = term.get("namespaces") or (), term.get("namespaceSelector")
    if not names and by_labels is None:
        if here != owner["metadata"]["namespace"]:
            return False
    elif here not in names:
        namespace = cluster.namespaces.get(here) or {"metadata": {}}
        if by_labels is None or not selects(by_labels, namespace["metadata"].get("labels") or {}):
            return False
    return selects(_with_keys(term, owner), other["metadata"].get("labels") or {})


def _with_keys(term: Json, owner: Json) -> Json | None:
    """A term's selector with what matchLabelKeys and mismatchLabelKeys add to it."""
    selector, labels = term.get("labelSelector"), owner["metadata"].get("labels") or {}
    if selector is None:
        return None
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}


def _terms(pod: Json, kind: str) -> list[Json]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get(_REQUIRED) or ())


def _same_domain(key: str, one: Json, other: Json) -> bool:
    here, there = one["metadata"].get("labels") or {}, other["metadata"].get("labels") or {}
    return key in here and here[key] == there.get(key)


def _affinity(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    terms = _terms(pod, "podAffinity")
    if not terms:
        return None
    labels = node["metadata"].get("labels") or {}
    if any(term["topologyKey"] not in labels for term in terms):
        return "pod affinity: the node lacks the topology key"
    selected = [
        (other, there)
        for other, there in cluster.placed()
        if all(_term_selects(cluster, pod, term, other) for term in terms)
    ]
    near = all(any(_same_domain(term["topologyKey"], node, there) for _, there in selected) for term in terms)
    if near:
        return None
    counted = any(
        term["topologyKey"] in (there["metadata"].get("labels") or {})
        for _, there in selected
        for term in terms
    )
    first = not counted and all(_term_selects(cluster, pod, term, pod) for term in terms)
    return None if first else "pod affinity"


def _anti_affinity(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    terms = _terms(pod, "podAntiAffinity")
    for other, there in cluster.placed():
        for term in terms:
            if _same_domain(term["topologyKey"], node, there) and _term_selects(cluster, pod, term, other):
                return f"pod anti-affinity to {other['metadata']['name']}"
        for term in _terms(other, "podAntiAffinity"):
            if _same_domain(term["topologyKey"], node, there) and _term_selects(cluster, other, term, pod):
                return f"pod anti-affinity of {other['metadata']['name']}"
    return None


def _spread(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    constraints = [
        one
        for one in pod["spec"].get("topologySpreadConstraints") or ()
        if one["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    if not constraints:
        return None
    keys = [one["topologyKey"] for one in constraints]
    labels = node["metadata"].get("labels") or {}
    if any(key not in labels for key in keys):
        return "topology spread: the node lacks the topology key"
    for constraint in constraints:
        problem = _skewed(cluster, pod, labels, constraint, keys)
        if problem is not None:
            return problem
    return None


def _skewed(
    cluster: FeasibleCluster, pod: Json, labels: Mapping[str, str], constraint: Json, keys: list[str]
) -> str | None:
    key = constraint["topologyKey"]
    selector = _with_keys(constraint, pod)
    counts = {
        (node["metadata"].get("labels") or {})[key]: 0
        for node in cluster.nodes.values()
        if _counts(pod, node, constraint, keys)
    }
    for other, there in cluster.placed():
        if _is_counted(pod, other, selector) and _counts(pod, there, constraint, keys):
            counts[there["metadata"]["labels"][key]] += 1
    least = min(counts.values(), default=0)
    if len(counts) < (constraint.get("minDomains") or 1):
        least = 0
    own = selects(selector, pod["metadata"].get("labels") or {})
    skew = counts.get(labels[key], 0) + own - least
    return f"topology spread over {key}: skew {skew}" if skew > constraint["maxSkew"] else None


def _is_counted(pod: Json, other: Json, selector: Json | None) -> bool:
    metadata = other["metadata"]
    alike = metadata["namespace"] == pod["metadata"]["namespace"] and "deletionTimestamp" not in metadata
    return alike and selects(selector, metadata.get("labels") or {})


def _counts(pod: Json, node: Json, constraint: Json, keys: list[str]) -> bool:
    """True if pods on a node count for a constraint."""
    labels = node["metadata"].get("labels") or {}
    if any(key not in labels for key in keys):
        return False
    if constraint.get("nodeAffinityPolicy") != "Ignore" and not _may_run_on(pod, node):
        return False
    if constraint.get("nodeTaintsPolicy") != "Honor":
        return True
    tolerations = pod["spec"].get("tolerations") or ()
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(_tolerated(one, tolerations) for one in taints if one["effect"] in _BLOCKING)


# Volumes


def _volumes(cluster: FeasibleCluster, pod: Json, node: Json) -> str | None:
    for name in _claim_names(pod):
        claim = cluster.claims.get((pod["metadata"]["namespace"], name))
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return f"claim {name} is not there"
        if "ReadWriteOncePod" in claim["spec"].get("accessModes", ()) and _used(cluster, pod, name):
            return f"claim {name} is in use"
        volume = cluster.volumes.get(claim["spec"].get("volumeName") or "")
        if volume is not None and not _reaches(volume, node):
            return f"volume {volume['metadata']['name']} cannot be reached"
    return None


def _claim_names(pod: Json) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _used(cluster: FeasibleCluster, pod: Json, claim: str) -> bool:
    namespace = pod["metadata"]["namespace"]
    return any(
        other["metadata"]["namespace"] == namespace and claim in _claim_names(other)
        for other, _ in cluster.placed()
    )


def _reaches(volume: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    for key in _ZONES:
        zones = (volume["metadata"].get("labels") or {}).get(key)
        if zones is not None and key in labels and labels[key] not in zones.split("__"):
            return False
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or _any_term(required.get("nodeSelectorTerms") or (), node)


_RULES: Final[tuple[Rule, ...]] = (
    _taints,
    _node_labels,
    _resources,
    _host_ports,
    _affinity,
    _anti_affinity,
    _spread,
    _volumes,
)
