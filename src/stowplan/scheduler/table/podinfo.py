"""Pods as the table knows them, and what is worked out once for all pods of one template."""

from collections.abc import Hashable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import force_setattr

from stowplan.api.meta import OwnerReference
from stowplan.api.pod import HostPort, Pod, PodSpec, Volume, host_ports
from stowplan.api.releases.behaviour import Rules
from stowplan.api.rules.resources import (
    PodRequests,
    accounted_requests,
    incoming_requests,
    is_resize_deferred,
    requests_for_scoring,
)
from stowplan.scheduler.table.columns import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.scheduler.table.labelsets import LabelSet, LabelSets
from stowplan.scheduler.table.terms import PodTerms, TermGroup, TermGroups, parse_terms

_MOST_FACTS = 64

_encode = msgspec.msgpack.Encoder().encode


class PodShape:
    """Data derived from a pod without its labels, shared by templates that differ in nothing else.

    Pods of an indexed Job, say, have a label each with their index. `signatures` are those of plugins that do
    not look at labels, by profile.
    """

    __slots__ = (
        "__weakref__",
        "accounted",
        "asked",
        "is_plain",
        "non_zero",
        "ports",
        "requests",
        "resize_deferred",
        "scalars",
        "signatures",
        "taken",
        "terms",
        "volumes",
    )

    def __init__(self, pod: Pod, rules: Rules, *, by_claims: bool) -> None:
        self.requests: PodRequests = incoming_requests(pod, by_claims=by_claims)
        self.accounted: PodRequests = (
            accounted_requests(pod, rules.resize_accounting, by_claims=by_claims)
            if _may_be_resized(pod)
            else self.requests
        )
        self.resize_deferred = is_resize_deferred(pod)
        """True if pods run already and wait for room to be resized."""
        self.ports: tuple[HostPort, ...] = host_ports(pod)
        self.terms: PodTerms = parse_terms(pod.namespace, pod.spec.affinity)
        self.taken: tuple[tuple[int, int], ...] = core_lines(self.accounted)
        """Amounts taken of the first three resources, as (line of the resource columns, amount)."""
        self.scalars: tuple[tuple[str, int], ...] = tuple(
            (name, amount) for name, amount in self.accounted.scalars.items() if amount
        )
        """Amounts taken of other resources, by name."""
        self.non_zero: tuple[tuple[int, int], ...] = (
            (CPU, self.accounted.non_zero_milli_cpu),
            (MEMORY, self.accounted.non_zero_memory),
        )
        self.volumes: tuple[Volume, ...] = storage_volumes(pod)
        self.is_plain = not (self.volumes or self.requests.scalars or pod.spec.resource_claims)
        """True if pods need nothing but room on a node: no disks, no devices."""
        self.asked: dict[tuple[tuple[str, ...], bool, bool], tuple[int, ...]] = {}
        self.signatures: dict[int, tuple[int, Any]] = {}


class PodTemplate:
    """Everything derived from the parts of a pod that its siblings have in common.

    Worked out once per template, not once per pod: requests, ports, parsed affinity, the label set, and the
    keys under which profiles keep reusable results (`class_keys`).
    """

    __slots__ = (
        "__weakref__",
        "_all_groups",
        "_groups",
        "_seen",
        "accounted",
        "carries_terms",
        "class_keys",
        "counted_like",
        "facts",
        "is_plain",
        "label_set",
        "non_zero",
        "pod",
        "ports",
        "requests",
        "resize_deferred",
        "rules",
        "scalars",
        "shape",
        "taken",
        "terms",
        "volumes",
    )

    def __init__(
        self, pod: Pod, label_set: LabelSet, groups: TermGroups, rules: Rules, shape: PodShape
    ) -> None:
        self.pod = pod
        self.rules = rules
        self.label_set = label_set
        self.shape = shape
        self.requests = shape.requests
        self.accounted = shape.accounted
        self.resize_deferred = shape.resize_deferred
        self.ports = shape.ports
        self.terms = shape.terms
        self.carries_terms = bool(shape.terms.terms)
        self.taken = shape.taken
        self.scalars = shape.scalars
        self.non_zero = shape.non_zero
        self.volumes = shape.volumes
        self.is_plain = shape.is_plain
        self._all_groups = groups
        self._groups: tuple[TermGroup, ...] | None = None
        self._seen: tuple[int, LabelSet] = (-1, label_set)
        self.class_keys: dict[int, tuple[int, tuple[Hashable, tuple[str, ...]]]] = {}
        self.counted_like: dict[PodTemplate, tuple[tuple[int, int], bool]] = {}
        """Cached results of `counted_alike` with other templates."""
        self.facts: dict[str, object] = {}

    @property
    def groups(self) -> tuple[TermGroup, ...]:
        """The groups of the terms that pods carry, looked up when the first of them is on a node."""
        if self._groups is None:
            self._groups = tuple(map(self._all_groups.group, self.terms.terms))
        return self._groups

    @property
    def seen_label_set(self) -> LabelSet:
        """The label set without the labels that no affinity term looks at (`TermGroups.seen_labels`)."""
        version, seen = self._seen
        groups = self._all_groups
        if version != groups.keys_version:
            seen = groups.seen_labels(self.label_set, self.terms)
            self._seen = (groups.keys_version, seen)
        return seen

    def note(self, key: str, fact: object) -> None:
        """Keep something worked out for the template. Plugins that are gone leave theirs behind, so at some
        number all are worked out anew."""
        if len(self.facts) >= _MOST_FACTS:
            self.facts.clear()
        self.facts[key] = fact

    def asked(self, names: tuple[str, ...], *, non_zero: bool, pod_level: bool) -> tuple[int, ...]:
        """Requests for some resources, as node scores use them (see `requests_for_scoring`)."""
        key = (names, non_zero, pod_level)
        known = self.shape.asked.get(key)
        if known is None:
            if self.pod.spec.resources is None and self.accounted is self.requests:
                known = tuple(_plain_request(self.requests, name, non_zero) for name in names)
            else:
                known = requests_for_scoring(
                    self.pod,
                    names,
                    non_zero=non_zero,
                    pod_level=pod_level,
                    accounting=self.rules.resize_accounting,
                )
            if len(self.shape.asked) >= _MOST_FACTS:
                self.shape.asked.clear()
            self.shape.asked[key] = known
        return known


def _plain_request(requests: PodRequests, name: str, non_zero: bool) -> int:
    """One resource of a pod whose containers alone say what it asks for."""
    if name == "cpu":
        return requests.non_zero_milli_cpu if non_zero else requests.milli_cpu
    if name == "memory":
        return requests.non_zero_memory if non_zero else requests.memory
    if name == "ephemeral-storage":
        return requests.ephemeral_storage
    return requests.scalars.get(name, 0)


def _may_be_resized(pod: Pod) -> bool:
    """Does the status say anything about what the pod has been given, or about a resize?"""
    status = pod.status
    if any(condition.type == "PodResizePending" for condition in status.conditions):
        return True
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or status.allocated_resources
    )


def core_lines(requests: PodRequests) -> tuple[tuple[int, int], ...]:
    """Requests for the first three resources as (line of the resource columns, amount), without the zeros."""
    wanted = (
        (CPU, requests.milli_cpu),
        (MEMORY, requests.memory),
        (EPHEMERAL_STORAGE, requests.ephemeral_storage),
    )
    return tuple((line, amount) for line, amount in wanted if amount)


class PodInfo:
    """One pod. `row` is where it stands in the table, -1 while it is on no known node."""

    __slots__ = ("assumed", "dying", "key", "pod", "row", "template", "uid")

    def __init__(self, pod: Pod, template: PodTemplate) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.key = pod.key
        self.template = template
        self.row = -1
        self.assumed = False
        self.dying = pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.key!r}, row={self.row})"

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.pod.metadata.annotations

    @property
    def owners(self) -> tuple[OwnerReference, ...]:
        return self.pod.metadata.owner_references

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def requests(self) -> PodRequests:
        """Requests of the pod."""
        return self.template.requests


class Templates:
    """Finds the template of a pod; pods whose shared parts are equal get the same one."""

    def __init__(self, label_sets: LabelSets, groups: TermGroups, rules: Rules) -> None:
        self._rules = rules
        self._label_sets = label_sets
        self._groups = groups
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self.count_claims = False
        """True to count resources that pods take through claims; set before there are pods."""

    def __len__(self) -> int:
        return len(self._templates)

    def of(self, pod: Pod) -> PodTemplate:
        """The template of a pod. Raises QuantityError."""
        key = _template_key(pod)
        template = self._templates.get(key)
        if template is None:
            # Labels are encoded last, so the bytes before them are equal for pods that differ only in labels.
            shape_key = key[: -len(_encode(pod.metadata.labels))]
            shape = self._shapes.get(shape_key)
            if shape is None:
                shape = self._shapes[shape_key] = PodShape(pod, self._rules, by_claims=self.count_claims)
            label_set = self._label_sets.of(pod.metadata.namespace, pod.metadata.labels)
            template = self._templates[key] = PodTemplate(pod, label_set, self._groups, self._rules, shape)
        else:
            _share(pod, template.pod)
        return template


def _share(pod: Pod, like: Pod) -> None:
    """Let a pod share the equal parts of another pod of its template, so that they are held once.

    This halves the memory of a decoded pod. Empty parts take nothing.
    """
    spec, its_spec = pod.spec, like.spec
    if spec.containers is its_spec.containers:
        return
    meta, its_meta, status = pod.metadata, like.metadata, pod.status
    force_setattr(spec, "containers", its_spec.containers)
    force_setattr(spec, "scheduler_name", its_spec.scheduler_name)
    force_setattr(meta, "namespace", its_meta.namespace)
    force_setattr(meta, "labels", its_meta.labels)
    if spec.tolerations:
        force_setattr(spec, "tolerations", its_spec.tolerations)
    if meta.owner_references:
        force_setattr(meta, "owner_references", its_meta.owner_references)
    if status.container_statuses:
        force_setattr(status, "container_statuses", like.status.container_statuses)
    if spec.init_containers:
        force_setattr(spec, "init_containers", its_spec.init_containers)
        force_setattr(status, "init_container_statuses", like.status.init_container_statuses)
    if spec.node_selector:
        force_setattr(spec, "node_selector", its_spec.node_selector)
    if spec.affinity is not None:
        force_setattr(spec, "affinity", its_spec.affinity)
    if spec.topology_spread_constraints:
        force_setattr(spec, "topology_spread_constraints", its_spec.topology_spread_constraints)


def _template_key(pod: Pod) -> bytes:
    """Bytes that are equal for pods with equal template data, labels last.

    The name, the node and the status stay out, except for the kubelet's report about resizes. So do volumes
    that no rule reads: the token volume that every pod gets has a random name.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return _encode(
        (
            meta.namespace,
            meta.owner_references,
            spec.scheduler_name,
            spec.containers,
            spec.init_containers,
            tuple(filter(_is_read, spec.volumes)) if spec.volumes else (),
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.resource_claims,
            spec.host_network,
            spec.host_users,
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            status.node_allocatable_resource_claim_statuses,
            [c.reason for c in status.conditions if c.type == "PodResizePending"]
            if status.conditions
            else (),
            meta.labels,
        )
    )


def _is_read(volume: Volume) -> bool:
    return volume.image is not None or volume.csi is not None or _is_storage(volume)


def storage_volumes(pod: Pod) -> tuple[Volume, ...]:
    """The volumes of a pod that are or become disks: claims, and disks it names itself."""
    volumes = pod.spec.volumes
    return tuple(filter(_is_storage, volumes)) if volumes else ()


def _is_storage(volume: Volume) -> bool:
    return any(
        (
            volume.persistent_volume_claim,
            volume.ephemeral,
            volume.gce_persistent_disk,
            volume.aws_elastic_block_store,
            volume.iscsi,
            volume.rbd,
            volume.azure_disk,
            volume.cinder,
            volume.azure_file,
            volume.vsphere_volume,
            volume.portworx_volume,
        )
    )


_MOST: Final = 64
"""Number of templates for which a verdict is cached: those of one template in all zones of a large cluster.
"""


def counted_alike(old: PodTemplate, new: PodTemplate) -> bool:
    """True if pods of two templates take the same from a node and are matched by the same selectors.

    An API server adds the zone and the region of its node to a pod's labels when it is bound. Most often no
    counter depends on them. Taking the pod off its row and putting it back would invalidate everything
    computed for the row, for every pod that is bound.

    A verdict is cached until one of the two is matched by another selector.
    """
    versions = (old.label_set.version, new.label_set.version)
    known = old.counted_like
    kept = known.get(new)
    if kept is not None and kept[0] == versions:
        return kept[1]
    verdict = (
        old.accounted == new.accounted
        and old.ports == new.ports
        and old.terms.terms == new.terms.terms
        and not old.volumes
        and not new.volumes
        and {id(matcher) for matcher in old.label_set.matchers}
        == {id(matcher) for matcher in new.label_set.matchers}
    )
    if len(known) >= _MOST:
        known.clear()
    known[new] = (versions, verdict)
    return verdict
