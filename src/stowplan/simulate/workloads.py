"""Workloads of manifests, and the pods that their controllers would create.

Manifests get the defaults and are validated by the rules of the API server; pods get what its admission adds
(priority, tolerations), labels and owners as controllers set them. So the scheduler sees the pods that it
would see if the manifest were applied.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.decode import KINDS, DecodeError, convert
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.api.storage import StorageClass
from stowplan.api.workloads import PriorityClass
from stowplan.localcluster.admission.defaults import DEFAULTS
from stowplan.localcluster.admission.strategy import PREPARE_CREATED
from stowplan.localcluster.admission.validation import check_created
from stowplan.localcluster.controllers.devices.resourceclaim import claim_from
from stowplan.localcluster.controllers.workloads.daemonset import Daemon, affinity_for, tolerations_of
from stowplan.localcluster.controllers.workloads.podcontrol import pod_from
from stowplan.localcluster.controllers.workloads.rollout import Strategy, new_set
from stowplan.localcluster.controllers.workloads.statefulset import claims_for, volumes_for
from stowplan.localcluster.objects.fields import (
    count_in,
    name_of,
    namespace_of,
    spec_of,
)
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.strict import struct_of
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place
from stowplan.simulate.snapshot.sources import documents

RESOURCES: Final[Mapping[str, Resource]] = {
    one.kind: one
    for one in (
        catalogue.PODS,
        catalogue.DEPLOYMENTS,
        catalogue.REPLICA_SETS,
        catalogue.REPLICATION_CONTROLLERS,
        catalogue.STATEFUL_SETS,
        catalogue.DAEMON_SETS,
        catalogue.JOBS,
        catalogue.CRON_JOBS,
    )
}
"""What makes pods."""

DAEMON_SET: Final = "DaemonSet"
_CLAIM_TEMPLATE: Final = "ResourceClaimTemplate"
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


@dataclass(slots=True)
class Manifests:
    """What files have: workloads, other objects that matter to the scheduler, and what was left out."""

    workloads: list["Workload"] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    claim_templates: dict[str, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that makes pods, with the defaults that the API server sets."""

    kind: str
    document: Json
    place: Place | None = None

    @property
    def name(self) -> str:
        return name_of(self.document)

    @property
    def namespace(self) -> str:
        return namespace_of(self.document)

    @property
    def title(self) -> str:
        """How kubectl calls it: `deployment/web`."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def replicas(self) -> int:
        """How many pods it asks for; of a DaemonSet nodes decide."""
        if self.kind in ("Job", "CronJob"):
            spec = self.job_spec
            if spec.get("suspend"):
                return 0
            at_once = count_in(spec, "parallelism", 1)
            return min(at_once, count_in(spec, "completions", at_once))
        return 1 if self.kind == "Pod" else count_in(spec_of(self.document), "replicas", 1)

    @property
    def template_path(self) -> str:
        """Where its pods' spec stands."""
        return {"Pod": "spec", "CronJob": "spec.jobTemplate.spec.template.spec"}.get(
            self.kind, "spec.template.spec"
        )

    @property
    def job_spec(self) -> Json:
        spec = spec_of(self.document)
        return spec if self.kind == "Job" else spec_of(spec.get("jobTemplate") or {})

    def pods(
        self, count: int, around: "AdmissionContext", taken: Container[str] = (), *, first: int = 0
    ) -> "NewPods":
        """So many of its pods, numbered from `first` on, past names that are `taken`.

        Of a DaemonSet there is one for each node that it fits, however many are asked for.
        """
        owner, template = self._owner_and_template()
        found = NewPods(owner=self._owner_object(owner))
        made: Pod | None = None
        for number, name in self._names(count, taken, first, around):
            changed = self._own_part(template, number, name, around, found)
            if changed is not None or made is None:
                body = self._pod(owner, template, changed or {})
                made = around.admit(body, self.place, self.template_path)
                made = around.with_claims(made, name, found)
            found.pods.append(_named(made, name, self.namespace))
            found.next_number = number + 1
        return found

    def _owner_and_template(self) -> tuple[Json | None, Json]:
        document = self.document
        if self.kind == "Pod":
            return None, document
        if self.kind == "Deployment":
            strategy = Strategy.of(document)
            replica_set = new_set(document, strategy.replicas, 1, strategy)
            replica_set["metadata"]["uid"] = f"new-{replica_set['metadata']['name']}"
            return replica_set, spec_of(replica_set).get("template") or {}
        holder = {"spec": self.job_spec} if self.kind == "CronJob" else document
        return document, spec_of(holder).get("template") or {}

    @property
    def _resource(self) -> Resource:
        return catalogue.REPLICA_SETS if self.kind == "Deployment" else RESOURCES[self.kind]

    def _owner_object(self, owner: Json | None) -> Object | None:
        """The owner as the scheduler knows it: default spreading looks at its selector."""
        cls = None if owner is None else KINDS.get(self._resource.kind)
        return None if cls is None else convert(owner, cls)

    def _names(
        self, count: int, taken: Container[str], first: int, around: "AdmissionContext"
    ) -> Iterator[tuple[int, str]]:
        if self.kind == DAEMON_SET:
            daemon = Daemon(self.document)
            for number, node in enumerate(around.nodes):
                if daemon.fits(_bare(node))[0]:
                    yield number, f"{self.name}-{node.name}"
            return
        if self.kind == "Pod" and count == 1 and not first and f"{self.namespace}/{self.name}" not in taken:
            yield 0, self.name
            return
        number = first
        while count > 0:
            name = f"{self.name}-{number}"
            if f"{self.namespace}/{name}" not in taken:
                yield number, name
                count -= 1
            number += 1

    def _own_part(
        self, template: Json, number: int, name: str, around: "AdmissionContext", found: "NewPods"
    ) -> Json | None:
        """What the spec of one pod has that others have not; None if they are alike."""
        spec = template.get("spec") or {}
        if self.kind == DAEMON_SET:
            node = name.removeprefix(f"{self.name}-")
            return {"affinity": affinity_for(spec, node), "tolerations": tolerations_of(spec)}
        if self.kind == "StatefulSet" and spec_of(self.document).get("volumeClaimTemplates"):
            found.objects += [around.claim(one) for one in claims_for(self.document, number)]
            return {"volumes": volumes_for(self.document, template, number)}
        has_templates = any(one.get("resourceClaimTemplateName") for one in spec.get("resourceClaims") or ())
        return {} if has_templates else None

    def _pod(self, owner: Json | None, template: Json, changed: Json) -> Json:
        if owner is None:
            body = {**template, "spec": {**spec_of(template), **changed}}
        else:
            body = pod_from(template, self._resource, owner, name=self.name, spec=changed)
        return body


@dataclass(slots=True)
class NewPods:
    """Pods that do not exist yet, with their owner and the claims that come with them."""

    owner: Object | None = None
    objects: list[Object] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    next_number: int = 0
    """From where on further pods are numbered."""


@dataclass(slots=True)
class AdmissionContext:
    """What admission and controllers look at when pods are created."""

    nodes: Sequence[Node]
    priority_classes: Mapping[str, PriorityClass]
    storage_classes: Sequence[StorageClass]
    claim_templates: Mapping[str, Json]

    @classmethod
    def of(
        cls,
        nodes: Sequence[Node],
        objects: Sequence[Object],
        claim_templates: Mapping[str, Json] | None = None,
    ) -> "AdmissionContext":
        return cls(
            nodes,
            {one.name: one for one in objects if isinstance(one, PriorityClass)},
            [one for one in objects if isinstance(one, StorageClass)],
            claim_templates or {},
        )

    def admit(self, body: Json, place: Place | None = None, path: str = "spec") -> Pod:
        """A pod with what admission adds. Raises SnapshotError."""
        body = msgspec.json.decode(msgspec.json.encode(body))
        DEFAULTS[catalogue.PODS](body)
        spec = body["spec"]
        self._set_priority(spec, place, path)
        given = spec.get("tolerations") or []
        spec["tolerations"] = [
            *given,
            *(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in _TAINTS
                if not any(
                    one.get("key") in (None, "", key) and one.get("effect") in (None, "", "NoExecute")
                    for one in given
                )
            ),
        ]
        try:
            return convert(body, Pod)
        except DecodeError as error:
            raise place.says(str(error)) if place else SnapshotError(str(error)) from None

    def _set_priority(self, spec: Json, place: Place | None, path: str) -> None:
        name = spec.get("priorityClassName") or ""
        if name in _SYSTEM:
            spec["priority"] = _SYSTEM[name]
            return
        defaults = [one for one in self.priority_classes.values() if one.global_default]
        found = self.priority_classes.get(name) or (None if name else min(defaults, key=_value, default=None))
        if found is not None:
            spec["priority"] = found.value
            spec["priorityClassName"] = found.name
            if found.preemption_policy:
                spec["preemptionPolicy"] = found.preemption_policy
        elif name and spec.get("priority") is None:
            text = f"expected a PriorityClass of the cluster or of the files, got {name!r}"
            raise place.wrong(f"{path}.priorityClassName", text) if place else SnapshotError(text)

    def claim(self, body: Json) -> Object:
        """A PersistentVolumeClaim with the default storage class, if it names none."""
        spec = body["spec"]
        if spec.get("storageClassName") is None:
            marked = [
                one
                for one in self.storage_classes
                if any(one.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)
            ]
            if marked:
                spec["storageClassName"] = max(marked, key=_newest).name
        metadata = body["metadata"]
        metadata["uid"] = f"new-claim-{metadata['namespace']}/{metadata['name']}"
        return convert({**body, "status": {"phase": "Pending"}}, KINDS["PersistentVolumeClaim"])

    def with_claims(self, pod: Pod, name: str, found: NewPods) -> Pod:
        """A pod with the ResourceClaims that are made for it of templates."""
        statuses = []
        for asked in pod.spec.resource_claims:
            template = self.claim_templates.get(f"{pod.namespace}/{asked.resource_claim_template_name}")
            if not asked.resource_claim_template_name or template is None:
                continue
            made = claim_from(template, msgspec.to_builtins(_named(pod, name, pod.namespace)), asked.name)
            made["metadata"].pop("generateName", None)
            made["metadata"]["name"] = f"{name}-{asked.name}"
            made["metadata"]["namespace"] = pod.namespace
            made["metadata"]["uid"] = f"new-claim-{pod.namespace}/{name}-{asked.name}"
            found.objects.append(convert(made, KINDS["ResourceClaim"]))
            statuses.append({"name": asked.name, "resourceClaimName": f"{name}-{asked.name}"})
        if not statuses:
            return pod
        body = msgspec.to_builtins(pod)
        body["status"] = {**(body.get("status") or {}), "resourceClaimStatuses": statuses}
        return convert(body, Pod)


def read_manifests(paths: Sequence[Path], namespace: str = "default") -> Manifests:
    """The objects of manifests. Raises SnapshotError with file, line and field."""
    found = Manifests()
    left_out: dict[str, int] = {}
    for path in paths:
        for place, document in documents(path):
            if not take_in(document, place, namespace, found):
                kind = document["kind"]
                left_out[kind] = left_out.get(kind, 0) + 1
    if left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        found.notes.append(f"not needed for scheduling: {kinds}")
    return found


def take_in(document: Json, place: Place, namespace: str, found: Manifests) -> bool:
    """Read one object; whether it matters to the scheduler."""
    kind = document["kind"]
    resource = RESOURCES.get(kind)
    if resource is not None:
        found.workloads.append(Workload(kind, checked(document, resource, place, namespace), place))
        return True
    if kind == _CLAIM_TEMPLATE:
        body = checked(document, catalogue.RESOURCE_CLAIM_TEMPLATES, place, namespace)
        found.claim_templates[f"{namespace_of(body)}/{name_of(body)}"] = body
        return True
    cls = KINDS.get(kind)
    if cls is None:
        return False
    known = next((one for one in catalogue.BUILT_IN if one.kind == kind), None)
    if known is not None:
        document = checked(document, known, place, namespace)
    try:
        found.objects.append(convert(document, cls))
    except DecodeError as error:
        raise place.says(str(error)) from None
    return True


def checked(document: Json, resource: Resource, place: Place, namespace: str) -> Json:
    """An object as the API server would store it. Raises SnapshotError with file, line and field."""
    type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
    version = document.get("apiVersion")
    if version != resource.api_version:
        raise place.wrong("apiVersion", f"expected {resource.api_version}, got {version!r}")
    if type_ is not None:
        try:
            msgspec.convert(document, struct_of(type_.full_name))
        except msgspec.ValidationError as error:
            raise place.says(str(error)) from None
    body: Json = msgspec.json.decode(msgspec.json.encode(document))
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise place.wrong("metadata.name", "required field is missing")
    metadata.setdefault("name", str(metadata.get("generateName", "")).rstrip("-"))
    if resource.namespaced:
        metadata.setdefault("namespace", namespace)
    metadata.setdefault("uid", f"new-{resource.kind.lower()}-{metadata['name']}")
    try:
        set_defaults = DEFAULTS.get(resource)
        if set_defaults is not None:
            set_defaults(body)
        prepare = None if resource == catalogue.PODS else PREPARE_CREATED.get(resource)
        if prepare is not None:
            prepare(body)
        check_created(resource, body)
    except ApiError as error:
        causes = error.details.get("causes") or [{"field": "", "message": error.message}]
        raise place.wrong(str(causes[0].get("field", "")), str(causes[0].get("message", ""))) from None
    return body


def _named(pod: Pod, name: str, namespace: str) -> Pod:
    metadata = replace(
        pod.metadata, name=name, namespace=namespace, uid=f"new-{namespace}/{name}", generate_name=""
    )
    return replace(pod, metadata=metadata)


def _bare(node: Node) -> Json:
    """What a DaemonSet looks at of a node."""
    taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints]
    if node.spec.unschedulable:
        taints.append({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"})
    return {
        "metadata": {"name": node.name, "labels": node.metadata.labels},
        "spec": {"taints": taints},
    }


def _value(one: PriorityClass) -> tuple[int, str]:
    return one.value, one.name


def _newest(one: StorageClass) -> tuple[str, str]:
    return one.metadata.creation_timestamp, one.name
