"""Gaps: things that an explanation depends on and did not look at, for the first lines of the answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stowplan.api.pod import Pod
from stowplan.config.types import Extender
from stowplan.explain.document.layers import Decider
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.states import PENDING

_STORAGE: Final = (
    "persistentvolumes",
    "persistentvolumeclaims",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
)
_DEVICES: Final = ("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules")
_SPREADING: Final = ("services", "replicationcontrollers", "replicasets", "statefulsets")
_GROUPS: Final = ("podgroups", "compositepodgroups")


def gaps_of(
    found: PodDocument,
    pod: Pod,
    unread: Mapping[str, str],
    extenders: Sequence[Extender],
    without_plugins: Sequence[str] = (),
) -> tuple[str, ...]:
    """The lines about a pod. `unread` has by resource why its objects are not known."""
    if not found.is_ours:
        return tuple(_of_decider(found.decider))
    return (
        *(unread[plural] for plural in _read_for(found, pod) if plural in unread),
        *(_not_called(one) for one in extenders if _is_interested(one, pod)),
        *(f"plugin {name} is not installed: evaluated without it" for name in without_plugins),
    )


def _of_decider(decider: Decider | None) -> Iterator[str]:
    if decider is not None and decider.kind == "other":
        yield f"not evaluated: the profile of scheduler {decider.scheduler} is not known here (--config)"
    elif decider is not None and decider.kind == "unknown":
        yield decider.text


def _read_for(found: PodDocument, pod: Pod) -> Iterator[str]:
    """The resources that the answer about a pod depends on."""
    yield "nodes"
    yield "pods"
    spec = pod.spec
    if any(one.persistent_volume_claim is not None or one.ephemeral is not None for one in spec.volumes):
        yield from _STORAGE
    if spec.resource_claims:
        yield from _DEVICES
    if spec.scheduling_group is not None:
        yield from _GROUPS
    affinity = spec.affinity
    terms = [] if affinity is None else [affinity.pod_affinity, affinity.pod_anti_affinity]
    required = [
        term
        for one in terms
        if one is not None
        for term in one.required_during_scheduling_ignored_during_execution
    ]
    if any(term.namespace_selector is not None for term in required):
        yield "namespaces"
    if found.state == PENDING:
        yield "poddisruptionbudgets"
    elif not spec.topology_spread_constraints:
        yield from _SPREADING


def _not_called(extender: Extender) -> str:
    verbs = [
        text
        for verb, text in (
            (extender.filter_verb, "reject nodes"),
            (extender.prioritize_verb, "prefer others"),
            (extender.preempt_verb, "forbid victims"),
            (extender.bind_verb, "refuse to bind"),
        )
        if verb
    ]
    return f"extender {extender.url_prefix} is not called: it may {' or '.join(verbs) or 'decide otherwise'}"


def _is_interested(extender: Extender, pod: Pod) -> bool:
    """True if an extender is called for a pod: one with managed resources only if the pod requests them."""
    managed = {one.name for one in extender.managed_resources}
    if not managed:
        return True
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    asked = {name for one in containers for name in (*one.resources.requests, *one.resources.limits)}
    return not managed.isdisjoint(asked)
