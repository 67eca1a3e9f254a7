"""Two independent checks of feasible nodes.

`Oracle` runs the profile's own filters over a table built from scratch, so nothing cached can be wrong. The
functions below it use none of the scheduler's code: resources, host ports, taints, node affinity and volumes,
to the extent that the objects of a run (objects.py) use them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from stowplan.api.devices import ResourceClaim
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.lab.chaos.objects import READ_WRITE_ONCE_POD, STATIC
from stowplan.lab.chaos.plan import ExtenderPlan
from stowplan.runtime.clock import Clock
from stowplan.scheduler import Scheduler
from stowplan.scheduler.framework.interface import Services
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.table import ClusterTable, load


@dataclass(frozen=True, slots=True)
class _Time:
    """All that filters use of a running scheduler: how late it is, as devices do not get ready for ever."""

    clock: Clock

    def count_volume_error(self, operation: str) -> None:
        """Already counted by the scheduler."""


class Oracle:
    """Which nodes are feasible for a pod, given the nodes and the pods on them."""

    def __init__(
        self,
        scheduler: Scheduler,
        extenders: Sequence[ExtenderPlan],
        nodes: Iterable[Node],
        placed: Iterable[tuple[Pod, str]],
    ) -> None:
        self._scheduler = scheduler
        self._extenders = extenders
        self._table = ClusterTable(scheduler.settings.release)
        for node in nodes:
            self._table.put_node(node)
        for pod, node_name in placed:
            self._table.place(self._table.info(pod), node_name)

    def add_storage(self, objects: Iterable[Object], assumed: Iterable[Object] = ()) -> None:
        """Add volumes, claims and classes, and those that are assumed."""
        load(self._table, objects)
        self._table.storage.exchange_assumed(assumed)

    def add_devices(self, objects: Iterable[Object], in_flight: Iterable[ResourceClaim] = ()) -> None:
        """Add slices, device classes and resource claims, and allocations that are not written yet."""
        load(self._table, objects)
        for claim in in_flight:
            self._table.devices.claims.signal_pending(claim)

    def feasible(self, pod: Pod, *, nominated: Iterable[Pod] = (), during_faults: bool = False) -> list[str]:
        """The nodes that no filter of the pod's profile rejects, and no extender's rule.

        `nominated` pods count as if they were on their nodes. During faults an ignorable extender may have
        been skipped, so its rule does not count. A filter that fails ends the attempt for all nodes.
        """
        settings = self._scheduler.settings
        name = pod.spec.scheduler_name
        profile = next(one for one in settings.config.profiles if one.scheduler_name == name)
        framework = Framework(
            profile,
            self._table,
            settings.registry,
            settings.gates,
            reuse=False,
            rng=Random(0),
            services=cast(Services, _Time(self._scheduler.context.clock)),
        )
        try:
            evaluation = framework.run_filters(self._table.info(pod), self._nominations(nominated))
        except PluginError:
            return []
        names = [self._table.name_of(int(row)) for row in evaluation.feasible_rows]
        asked = [
            extender
            for extender in self._extenders
            if extender.is_interested(pod.name) and not (during_faults and extender.ignorable)
        ]
        return [node for node in names if all(extender.accepts(pod.name, node) for extender in asked)]

    def _nominations(self, nominated: Iterable[Pod]) -> Nominations:
        by_row: dict[int, list[PodInfo]] = {}
        for pod in nominated:
            row = self._table.row_of(pod.status.nominated_node_name)
            if row is not None:
                by_row.setdefault(row, []).append(self._table.info(pod))
        return by_row


def known_storage(storage: Storage) -> list[Object]:
    """The storage objects as the scheduler knows them."""
    return [*storage.volumes.values(), *storage.claims.values(), *storage.classes.values()]


_UNITS: Final = {"m": 1, "Mi": 1000 << 20, "Gi": 1000 << 30}
RESOURCES: Final = ("cpu", "memory")


def thousandths(amount: Any) -> int:
    """A quantity in thousandths; only the suffixes that occur in runs."""
    text = str(amount)
    for unit, worth in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * worth
    return int(text) * 1000


def overcommitment(node: Node, newcomer: Pod, others: Iterable[Pod]) -> str | None:
    """Resource that a node lacks for a pod in addition to the pods on it; None if the pod fits.

    Every pod of a run requests some of every resource, so one more pod is wrong even if the others alone
    exceed the node.
    """
    others = list(others)
    pods = [newcomer, *others]
    allocatable = node.status.allocatable
    for resource in RESOURCES:
        wanted = sum(_request(pod, resource) for pod in pods)
        offered = thousandths(allocatable.get(resource, 0))
        if wanted > offered:
            return f"{resource}: {wanted} of {offered} thousandths requested"
    if len(pods) > int(allocatable.get("pods", 0)):
        return f"pods: {len(pods)} of {allocatable.get('pods', 0)}"
    return _shared_port(newcomer, others)


def rejection(pod: Pod, node: Node) -> str | None:
    """Why a node rejects a pod regardless of the pods on it; None if it does not."""
    if node.spec.unschedulable:
        return "the node is unschedulable"
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerates(pod, taint.key, taint.value):
            return f"taint {taint.key}={taint.value} is not tolerated"
    labels = node.metadata.labels
    for key, value in (pod.spec.node_selector or {}).items():
        if labels.get(key) != value:
            return f"node selector {key}={value}"
    return _affinity_rejection(pod, labels)


def _request(pod: Pod, resource: str) -> int:
    return sum(
        thousandths(container.resources.requests.get(resource, 0)) for container in pod.spec.containers
    )


def _shared_port(newcomer: Pod, others: Iterable[Pod]) -> str | None:
    wanted = _host_ports(newcomer)
    for pod in others:
        shared = wanted & _host_ports(pod)
        if shared:
            return f"host port {min(shared)} is shared by {newcomer.key} and {pod.key}"
    return None


def _host_ports(pod: Pod) -> set[int]:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return {port.host_port for port in ports if port.host_port}


def _tolerates(pod: Pod, key: str, value: str) -> bool:
    return any(
        toleration.key in ("", key) and (toleration.operator == "Exists" or toleration.value == value)
        for toleration in pod.spec.tolerations
    )


def _affinity_rejection(pod: Pod, labels: Mapping[str, str]) -> str | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return None
    for term in required.node_selector_terms:
        if all(
            (labels.get(one.key) in one.values) == (one.operator == "In") for one in term.match_expressions
        ):
            return None
    return "node affinity"


BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


@dataclass(frozen=True, slots=True)
class StorageObjects:
    """Volumes by name, claims by key and classes by name."""

    volumes: Mapping[str, PersistentVolume]
    claims: Mapping[str, PersistentVolumeClaim]
    classes: Mapping[str, StorageClass]

    def allows(self, pod: Pod, labels: Mapping[str, str]) -> bool | None:
        """True if a pod's claims allow a node with these labels; None where these rules cannot tell."""
        open_claims: list[PersistentVolumeClaim] = []
        for key in claims_of(pod):
            claim = self.claims.get(key)
            if claim is None or claim.metadata.deletion_timestamp or claim.status.phase == "Lost":
                return False
            if is_bound(claim):
                volume = self.volumes.get(claim.spec.volume_name)
                if volume is None or not reaches(volume, labels):
                    return False
            else:
                open_claims.append(claim)
        if not open_claims:
            return True
        return self._can_bind(open_claims[0], labels) if len(open_claims) == 1 else None

    def _can_bind(self, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool | None:
        if claim.spec.storage_class_name not in self.classes:
            return False
        if claim.spec.storage_class_name != STATIC:
            return None
        return any(_is_free(volume, claim) and reaches(volume, labels) for volume in self.volumes.values())


def claims_of(pod: Pod) -> list[str]:
    """The keys of a pod's claims."""
    keys: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{pod.namespace}/{pod.name}-{volume.name}")
    return keys


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_exclusive(claim: PersistentVolumeClaim) -> bool:
    """True if only one pod may use a claim (ReadWriteOncePod)."""
    return READ_WRITE_ONCE_POD in claim.spec.access_modes


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """True if a volume's node affinity matches a node with these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(
        all(labels.get(wanted.key) in wanted.values for wanted in term.match_expressions)
        for term in affinity.required.node_selector_terms
    )


def _is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if a volume is unclaimed and matches a claim."""
    spec = volume.spec
    return (
        spec.claim_ref is None
        and volume.status.phase == "Available"
        and not volume.metadata.deletion_timestamp
        and spec.storage_class_name == claim.spec.storage_class_name
        and set(claim.spec.access_modes) <= set(spec.access_modes)
        and thousandths(spec.capacity["storage"]) >= thousandths(claim.spec.resources.requests["storage"])
    )


def ignores_other_pods(pod: Pod) -> bool:
    """True if a pod has no constraints on other pods."""
    affinity = pod.spec.affinity
    interpod = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return not interpod and not pod.spec.topology_spread_constraints
