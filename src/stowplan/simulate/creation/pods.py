"""Creating the objects of manifests in a simulated cluster: admitted by the API server's rules and quotas."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from stowplan.api import catalogue
from stowplan.api.admission import READ
from stowplan.api.catalogue import Resource
from stowplan.api.decode import KINDS, convert
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllers.devices.resourceclaim import claim_from
from stowplan.localcluster.controllers.storage import ephemeralvolume
from stowplan.simulate.creation.admission import Charged
from stowplan.simulate.creation.manifests import Document, Manifests, mistake
from stowplan.simulate.creation.workloads import DAEMON_SET, PodTemplate, Workload

if TYPE_CHECKING:
    from stowplan.simulate.cluster import Cluster

_BATCH: Final = 256
Pattern = tuple[Json, Json, Pod]
"""A pod as its controller makes it, as it is stored, and as the scheduler reads it."""

_TEMPLATE: Final = KINDS["ResourceClaimTemplate"]
_CLAIM: Final = KINDS["PersistentVolumeClaim"]
_POD_GROUP: Final = KINDS["PodGroup"]
_QUOTA: Final = KINDS["ResourceQuota"]
_DEVICE_CLAIM: Final = KINDS["ResourceClaim"]


def create_others(cluster: "Cluster", manifests: Manifests) -> None:
    """Add what makes no pods: first what admission reads, which holds for everything after it.

    Raises SnapshotError for what the API server refuses.
    """
    for one in sorted(manifests.others, key=_rank):
        cluster.add(_admitted(cluster, one))


def _rank(one: Document) -> int:
    cls = KINDS[one.body["kind"]]
    return 0 if cls in READ else 1 if cls is _QUOTA else 2


def _admitted(cluster: "Cluster", one: Document) -> Object:
    cls = KINDS[one.body["kind"]]
    if one.resource is None or cls in READ or cls is _QUOTA or not cluster.admission.serves(one.resource):
        return one.typed()
    try:
        body = cluster.admission.admitted(one.resource, one.body)
    except ApiError as error:
        raise mistake(error, one.place) from None
    charged = cluster.quotas.charge(one.resource, body)
    if charged.refusal:
        raise one.place.wrong("", charged.refusal)
    return convert(body, cls)


class PodSource:
    """The pods of one workload, made as they are asked for, each time some more.

    Owners and claims are added to the cluster, pods are given back to be scheduled. When the API server
    refuses one there are no more: `refusal` is why. Names are passed over that pods of the cluster have.
    """

    def __init__(self, cluster: "Cluster", workload: Workload, *, first: int | None = None) -> None:
        self.workload = workload
        self.refusal = ""
        self._cluster = cluster
        self._number = workload.first if first is None else first
        self._template: PodTemplate | None = None
        self._patterns: dict[int, Pattern] = {}
        self._latest: Json = {}

    def create(self, count: int) -> list[Pod]:
        """So many pods more; fewer if the API server refuses. Of a DaemonSet one for each node it fits."""
        found: list[Pod] = []
        if not self.refusal:
            try:
                self._create(count, found)
            except ApiError as error:
                self.refusal = error.message
        return found

    def again(self, count: int) -> list[Pod]:
        """The same after a refusal, as controllers try again: quotas may have room now."""
        self.refusal = ""
        return self.create(count)

    def endless(self) -> Iterator[Pod]:
        """Pods without end, or until the API server refuses one; made by the hundred."""
        size = 1
        while made := self.create(size):
            yield from made
            size = _BATCH

    def allowed(self, count: int) -> Charged:
        """Number of further pods like the last one that quotas allow, up to n."""
        with self._cluster.fork():
            return self._cluster.quotas.charge(catalogue.PODS, self._latest, count)

    def _create(self, count: int, found: list[Pod]) -> None:
        template = self._template
        if template is None:
            gates = self._cluster.settings.gates
            groups = gates.built_in_pod_groups and gates["WorkloadWithJob"]
            template = self._template = PodTemplate.of(self.workload, self._create_owner, groups=groups)
            cls = KINDS.get(template.resource.kind)
            if template.owner is not None and cls is not None:
                # Default spreading looks at the selector of the owner.
                self._cluster.add(convert(template.owner, cls))
            if template.group is not None:
                self._cluster.add(convert(template.group, _POD_GROUP))
        names = list(self._names(count))
        if not template.alike:
            self._create_each(template, names, found)
        elif names:
            _, body, pattern = self._patterns.get(0) or self._admitted(template, *names[0])
            self._patterns[0] = {}, body, pattern
            self._latest = body
            charged = self._cluster.quotas.charge(
                catalogue.PODS, body, len(names), lambda number: names[number][1]
            )
            found += (self._with_claims(_named(pattern, name), body) for _, name in names[: charged.allowed])
            self.refusal = charged.refusal

    def _create_owner(self, resource: Resource, body: Json) -> Json:
        made = self._cluster.admission.admitted(resource, body)
        self._charge(resource, made)
        return made

    def _charge(self, resource: Resource, body: Json) -> None:
        charged = self._cluster.quotas.charge(resource, body)
        if charged.refusal:
            raise ApiError(403, "Forbidden", charged.refusal)

    def _names(self, count: int) -> Iterator[tuple[int, str]]:
        """The numbers and names of the next pods."""
        workload, taken = self.workload, self._cluster.has_pod
        if workload.kind == DAEMON_SET:
            for number, node in enumerate(workload.nodes(self._cluster.nodes)):
                if not taken(f"{workload.namespace}/{workload.name}-{node}"):
                    yield number, f"{workload.name}-{node}"
            return
        first = self._number == workload.first
        if (
            workload.kind == "Pod"
            and count == 1
            and first
            and not taken(f"{workload.namespace}/{workload.name}")
        ):
            yield 0, workload.name
            return
        while count > 0:
            name = f"{workload.name}-{self._number}"
            if not taken(f"{workload.namespace}/{name}"):
                yield self._number, name
                count -= 1
            self._number += 1

    def _create_each(self, template: PodTemplate, names: list[tuple[int, str]], found: list[Pod]) -> None:
        """Create pods that differ from each other. Raises ApiError."""
        made: list[tuple[Pod, Json]] = []
        try:
            for number, name in names:
                made.append(self._create_one(template, number, name))
                if template.one_by_one:
                    found.append(self._with_claims(*made.pop()))
        finally:
            # The controller makes all pods before others make claims for them: a quota of claims that is
            # too small for both is used up by the controller's.
            found += (self._with_claims(*one) for one in made)

    def _create_one(self, template: PodTemplate, number: int, name: str) -> tuple[Pod, Json]:
        """Create a pod that differs from others, and the claims that come before it. Raises ApiError."""
        for claim in template.claims(number):
            self._create_claim(catalogue.PERSISTENT_VOLUME_CLAIMS, claim)
        given = template.pod(number, name)
        pattern = self._patterns.get(len(name))
        if pattern is None or not _differ_in_labels_alone(pattern[0], given):
            pattern = self._patterns[len(name)] = self._admitted(template, number, name)
        _, body, pod = pattern
        self._latest = body
        self._charge(catalogue.PODS, {**body, "metadata": {**body["metadata"], "name": name}})
        return _labelled(_named(pod, name), given), body

    def _admitted(self, template: PodTemplate, number: int, name: str) -> Pattern:
        given = template.pod(number, name)
        body = self._cluster.admission.admitted(catalogue.PODS, given)
        return given, body, _named(convert(body, Pod), name)

    def _create_claim(self, resource: Resource, body: Json) -> None:
        """Add a claim unless there is one of its name already. Raises ApiError."""
        cls = KINDS[resource.kind]
        metadata = body["metadata"]
        if (cls, f"{metadata['namespace']}/{metadata['name']}") in self._cluster.objects:
            return
        made = self._cluster.admission.admitted(resource, body)
        self._charge(resource, made)
        self._cluster.add(convert(made, cls))

    def _with_claims(self, pod: Pod, body: Json) -> Pod:
        """A pod with the claims that controllers make for it: of volumes, and of templates of claims."""
        spec = pod.spec
        if any(one.ephemeral is not None for one in spec.volumes):
            own = {**body, "metadata": {**body["metadata"], "name": pod.name, "uid": pod.metadata.uid}}
            for claim in ephemeralvolume.claims_for(own).values():
                self._made_for(catalogue.PERSISTENT_VOLUME_CLAIMS, claim)
        statuses = []
        for asked in spec.resource_claims:
            template = self._cluster.objects.get(
                (_TEMPLATE, f"{pod.namespace}/{asked.resource_claim_template_name}")
            )
            if not asked.resource_claim_template_name or template is None:
                continue
            owner = {"metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.metadata.uid}}
            claim = claim_from(msgspec.to_builtins(template), owner, asked.name)
            claim["metadata"].pop("generateName")
            claim["metadata"]["name"] = name = f"{pod.name}-{asked.name}"
            if self._made_for(catalogue.RESOURCE_CLAIMS, claim):
                statuses.append({"name": asked.name, "resourceClaimName": name})
        if not statuses:
            return pod
        changed = msgspec.to_builtins(pod)
        changed["status"] = {**(changed.get("status") or {}), "resourceClaimStatuses": statuses}
        return convert(changed, Pod)

    def _made_for(self, resource: Resource, claim: Json) -> bool:
        """Add a claim of a pod that is there already: without it the pod waits."""
        with suppress(ApiError):
            self._create_claim(resource, claim)
            return True
        return False


def _differ_in_labels_alone(one: Json, other: Json) -> bool:
    """True if bodies of pods differ in nothing that admission looks at.

    It reads neither labels nor annotations nor the host name, but for how long they are: names of a workload
    that are of equal length differ in their numbers alone.
    """
    first, second = ({**body["spec"], "hostname": ""} for body in (one, other))
    return first == second


def _labelled(pod: Pod, given: Json) -> Pod:
    """A pod with the labels and annotations of its own body, and what admission added."""
    metadata, own = pod.metadata, given["metadata"]
    labels = {**metadata.labels, **(own.get("labels") or {})}
    annotations = {**metadata.annotations, **(own.get("annotations") or {})}
    return replace(pod, metadata=replace(metadata, labels=labels, annotations=annotations))


def _named(pod: Pod, name: str) -> Pod:
    """A pod under another name. It has no date: what is new is of no age."""
    metadata = replace(
        pod.metadata,
        name=name,
        uid=f"new-{pod.namespace}/{name}",
        generate_name="",
        creation_timestamp="",
    )
    return replace(pod, metadata=metadata)
