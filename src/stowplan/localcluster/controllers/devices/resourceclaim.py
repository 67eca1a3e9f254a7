"""The resource claim controller: claims from templates for pods, and unused claims."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from stowplan.api.catalogue import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from stowplan.api.meta import AnyObject
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, RetryLater
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_of,
    finalizers_of,
    is_controlled_by,
    is_deleting,
    is_finished,
    key_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.localcluster.objects.groupclaims import (
    claim_of,
    consumer_of,
    group_key_of,
    is_group,
    is_owned_by_group_of,
    is_reserved_for,
    is_shared,
    templates_of,
)

CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"
POD: Final = "pod "
CLAIM: Final = "claim "
GROUP: Final = "podgroup "
_OWNERS: Final = {PODS.kind: POD, POD_GROUPS.kind: GROUP}
MAX_RESERVED: Final = 256
_MAX_PREFIX: Final = 57


def claim_from(template: Json, owner: Json, entry: str, resource: Resource = PODS) -> Json:
    """The claim that a pod or a pod group requests from a template by an entry's name."""
    spec = spec_of(template)
    metadata = spec.get("metadata") or {}
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "controller": True}
    made: Json = {
        "generateName": _prefix(name_of(owner), entry),
        "namespace": namespace_of(owner),
        "annotations": {**(metadata.get("annotations") or {}), CLAIM_NAME: entry},
        "ownerReferences": [{**reference, "name": name_of(owner), "uid": uid_of(owner)}],
    }
    if metadata.get("labels"):
        made["labels"] = dict(metadata["labels"])
    return {"metadata": made, "spec": spec.get("spec") or {}}


def _prefix(owner: str, entry: str) -> str:
    whole = f"{owner}-{entry}-"
    if len(whole) <= _MAX_PREFIX:
        return whole
    return "-".join(part[: len(part) * _MAX_PREFIX // len(whole)] for part in (owner, entry))


def is_done(pod: Json) -> bool:
    """True if a pod will not run any more."""
    return is_finished(pod) or (is_deleting(pod) and not node_of(pod))


def claim_names(user: Json) -> list[str]:
    """The claims of a pod or of a pod group, by their keys."""
    status = status_of(user)
    names = [one.get("resourceClaimName") for one in spec_of(user).get("resourceClaims") or ()]
    names += [one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()]
    names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [f"{namespace_of(user)}/{name}" for name in names if name]


def _templates_of(pod: Json) -> list[str]:
    asked = (one.get("resourceClaimTemplateName") for one in spec_of(pod).get("resourceClaims") or ())
    return [f"{namespace_of(pod)}/{name}" for name in asked if name]


class ResourceClaimController(Controller):
    """Makes claims from templates, and takes reservations off pods that are done."""

    name: ClassVar[str] = "resourceclaim-controller"
    event_source: ClassVar[str] = "resource_claim"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext, *, groups: bool = False) -> None:
        """`groups`: pod groups have claims, which their gate says."""
        super().__init__(context)
        self.pods = self.informer(PODS)
        self._groups: Informer | None = None
        if groups:
            self._groups = self.informer(POD_GROUPS)
            self._members = self.pods.index(group_key_of)
            self._waiting_groups = self._groups.index(templates_of)
            self._groups.add_handler(self._group_changed)
        self.claims = self.informer(RESOURCE_CLAIMS)
        self.templates = self.informer(RESOURCE_CLAIM_TEMPLATES)
        self._unseen: set[tuple[str, str]] = set()
        """Pods (by uid) and their entries for which a claim was sent that the informer has not shown."""
        self._waiting = self.pods.index(_templates_of)
        self._users = self.pods.index(claim_names)
        self.pods.add_handler(self._pod_changed)
        self.claims.add_handler(self._claim_changed)
        self.templates.add_handler(self._template_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if new is None or is_done(new):
            # Also claims that its status does not name: a scheduler may have stopped before it wrote that.
            for key in self.claims.by_owner[uid_of(pod)]:
                self.queue.add(CLAIM + key)
        if not (spec_of(pod).get("resourceClaims") or "extendedResourceClaimStatus" in status_of(pod)):
            return
        if new is None or is_done(new):
            self._unseen -= {(uid_of(pod), one["name"]) for one in spec_of(pod).get("resourceClaims") or ()}
            for key in claim_names(pod):
                self.queue.add(CLAIM + key)
        elif not is_deleting(new) and (old is None or _concern(old) != _concern(new)):
            self.queue.add(POD + key_of(new))

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self.queue.add(CLAIM + key_of(new))
            if "allocation" in status_of(new):
                for key, pod in self._users[key_of(new)].items():
                    if node_of(pod) and not is_reserved_for(new, pod):
                        self.queue.add(POD + key)
        if old is not None and new is None:
            owner = controller_of(old)
            if owner is not None and owner.get("kind") in _OWNERS:
                self.queue.add(f"{_OWNERS[owner['kind']]}{namespace_of(old)}/{owner['name']}")

    def _template_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            for key in self._waiting[key_of(new)]:
                self.queue.add(POD + key)
            if self._groups is not None:
                for key in self._waiting_groups[key_of(new)]:
                    self.queue.add(GROUP + key)

    def _group_changed(self, old: Json | None, new: Json | None) -> None:
        group = new if new is not None else old
        if group is None or not spec_of(group).get("resourceClaims"):
            return
        if new is None:
            for key in claim_names(group):
                self.queue.add(CLAIM + key)
            return
        self.queue.add(GROUP + key_of(new))
        if old is None or status_of(old) != status_of(new):
            for key in self._members[key_of(new)]:
                self.queue.add(POD + key)

    async def sync(self, key: str) -> None:
        if key.startswith(POD):
            pod = self.pods.get(key.removeprefix(POD))
            if pod is not None and not is_deleting(pod) and not is_finished(pod):
                await self._sync_pod(pod)
        elif key.startswith(GROUP):
            group = None if self._groups is None else self._groups.get(key.removeprefix(GROUP))
            if group is not None and not is_deleting(group):
                await self._sync_group(group)
        else:
            claim = self.claims.get(key.removeprefix(CLAIM))
            if claim is not None:
                await self._sync_claim(claim)

    # Pods

    async def _sync_pod(self, pod: Json) -> None:
        made: dict[str, str] = {}
        for asked in spec_of(pod).get("resourceClaims") or ():
            if asked.get("resourceClaimTemplateName") and not await self._has_claim(pod, asked["name"]):
                group = self._sharing(pod, asked)
                if group is None:
                    made[asked["name"]] = await self._claim_for(pod, PODS, asked)
                elif claim_of(group, asked["name"]):
                    made[asked["name"]] = claim_of(group, asked["name"])
        if made:
            pod = await self._tell_pod(pod, made)
        if node_of(pod):
            await self._reserve(pod)

    async def _has_claim(self, pod: Json, entry: str) -> bool:
        """True if the claim that a pod's status names for an entry exists and belongs to the pod."""
        for status in status_of(pod).get("resourceClaimStatuses") or ():
            if status.get("name") == entry:
                name = status.get("resourceClaimName")
                if not name:
                    return True
                claim = self.claims.get(f"{namespace_of(pod)}/{name}") or await self._read(pod, name)
                return claim is not None and (
                    is_controlled_by(claim, pod) or is_owned_by_group_of(claim, pod)
                )
        return False

    async def _read(self, pod: Json, claim: str) -> Json | None:
        """A claim that the informer does not show: it may be late."""
        try:
            return await self.client.get(RESOURCE_CLAIMS, namespace_of(pod), claim)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _group_of(self, pod: Json) -> Json | None:
        key = next(iter(group_key_of(pod)), "")
        return None if self._groups is None else self._groups.get(key)

    def _sharing(self, pod: Json, asked: Json) -> Json | None:
        """The group of a pod, if it shares the claim that the pod asks for. Raises if it is not there yet."""
        group = self._group_of(pod)
        if group is None and self._groups is not None and group_key_of(pod):
            raise RetryLater(f"PodGroup {group_key_of(pod)[0]} not found")
        return group if group is not None and is_shared(group, asked) else None

    async def _claim_for(self, owner: Json, resource: Resource, asked: Json) -> str:
        """The name of the claim of an entry, which is made if there is none yet."""
        sent = (uid_of(owner), asked["name"])
        claim = _of_entry(self.claims.by_owner[uid_of(owner)].values(), asked["name"])
        if claim is not None:
            self._unseen.discard(sent)
        elif sent in self._unseen:
            claim = await self._find(owner, asked["name"])
        if claim is not None:
            return name_of(claim)
        named = asked["resourceClaimTemplateName"]
        template = self.templates.get(f"{namespace_of(owner)}/{named}")
        entry = f"{resource.kind}ResourceClaim {asked['name']}"
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{named}" not found'
            raise await self._failed(owner, f'{entry}: resource claim template "{named}": {missing}')
        made = claim_from(template, owner, asked["name"], resource)
        self._unseen.add(sent)
        try:
            return name_of(await self.create(RESOURCE_CLAIMS, made))
        except ApiError as error:
            if not error.is_unreachable and error.code < 500:
                self._unseen.discard(sent)
            raise await self._failed(owner, f"{entry}: create ResourceClaim : {error.message}") from error

    async def _find(self, owner: Json, entry: str) -> Json | None:
        """The claim that an earlier request made: its answer was lost, or the informer is late."""
        listing = await self.client.list(RESOURCE_CLAIMS, AnyObject, namespace=namespace_of(owner))
        return _of_entry((one.data for one in listing.items if is_controlled_by(one.data, owner)), entry)

    async def _failed(self, owner: Json, note: str) -> RetryLater:
        await self.record_event(owner, "FailedResourceClaimCreation", note, WARNING)
        return RetryLater(note)

    async def _tell_pod(self, pod: Json, made: dict[str, str]) -> Json:
        known = status_of(pod).get("resourceClaimStatuses") or ()
        names = {
            one["name"]: one["resourceClaimName"] for one in known if one.get("resourceClaimName")
        } | made
        statuses = [{"name": name, "resourceClaimName": names[name]} for name in sorted(names)]
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"resourceClaimStatuses": statuses}}
        written = await self.client.patch(
            PODS, namespace_of(pod), name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )
        return self.note(PODS, written)

    async def _reserve(self, pod: Json) -> None:
        """Reserve allocated claims for a pod that was bound past the scheduler."""
        group = self._group_of(pod)
        shared = set() if group is None else {*claim_names(group)}
        for key in claim_names(pod):
            claim = self.claims.get(key)
            if claim is None or "allocation" not in status_of(claim):
                continue
            reserved = list(status_of(claim).get("reservedFor") or ())
            if is_reserved_for(claim, pod) or len(reserved) >= MAX_RESERVED or is_deleting(claim):
                continue
            mine = consumer_of(pod, group if key in shared else None)
            await self.set_status(RESOURCE_CLAIMS, claim, {"reservedFor": [*reserved, mine]})

    # Groups

    async def _sync_group(self, group: Json) -> None:
        """Make the claims of a group that come from templates, and write their names into its status."""
        names: dict[str, str] = {}
        for asked in spec_of(group).get("resourceClaims") or ():
            if asked.get("resourceClaimTemplateName"):
                names[asked["name"]] = await self._claim_for(group, POD_GROUPS, asked)
        known = {entry: claim_of(group, entry) for entry in names}
        if names != known:
            statuses = [{"name": name, "resourceClaimName": names[name]} for name in sorted(names)]
            await self.set_status(POD_GROUPS, group, {"resourceClaimStatuses": statuses})

    # Claims

    async def _sync_claim(self, claim: Json) -> None:
        reserved = status_of(claim).get("reservedFor") or ()
        kept = [one for one in reserved if await self._is_used(claim, one)]
        protected = PROTECTION in finalizers_of(claim)
        if len(kept) < len(reserved):
            status: Json = {"reservedFor": kept or None}
            if not kept and protected:
                status["allocation"] = None
            claim = await self.set_status(RESOURCE_CLAIMS, claim, status)
            if not kept and protected:
                await self._unprotect(claim)
        elif protected and is_deleting(claim) and not kept:
            claim = await self.set_status(RESOURCE_CLAIMS, claim, {"allocation": None})
            await self._unprotect(claim)
        if not kept:
            await self._delete_unused(claim)

    async def _is_used(self, claim: Json, consumer: Json) -> bool:
        """True if a consumer still needs a claim; also for kinds other than pods and groups, where that is
        unknown."""
        if self._groups is not None and is_group(consumer):
            group = await self._found(self._groups, claim, consumer)
            return group is not None and uid_of(group) == consumer.get("uid")
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = await self._found(self.pods, claim, consumer)
        return pod is not None and uid_of(pod) == consumer.get("uid") and not is_done(pod)

    async def _found(self, informer: Informer, claim: Json, consumer: Json) -> Json | None:
        """A consumer; one that the cache does not show may be so new that only the server knows it."""
        where = namespace_of(claim), consumer.get("name", "")
        found = informer.get("/".join(where))
        if found is not None:
            return found
        try:
            return await self.client.get(informer.resource, *where)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def _unprotect(self, claim: Json) -> None:
        kept = [one for one in finalizers_of(claim) if one != PROTECTION]
        await self.change(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": kept or None}})

    async def _delete_unused(self, claim: Json) -> None:
        """Delete a claim that was made for a pod which is done, or which was replaced."""
        owner = next(self._owning_pods(claim), None)
        if owner is None or is_deleting(claim):
            return
        pod = self.pods.get(f"{namespace_of(claim)}/{owner['name']}")
        if pod is not None and (uid_of(pod) != owner.get("uid") or is_done(pod)):
            await self.delete(RESOURCE_CLAIMS, claim)

    def _owning_pods(self, claim: Json) -> Iterator[Json]:
        owners = claim["metadata"].get("ownerReferences") or ()
        return (one for one in owners if one.get("kind") == "Pod" and one.get("controller"))


def _of_entry(claims: Iterable[Json], entry: str) -> Json | None:
    """The claim that was made for an entry of a pod, among those the pod owns."""
    for claim in claims:
        if annotations_of(claim).get(CLAIM_NAME) == entry and not is_deleting(claim):
            return claim
    return None


def _concern(pod: Json) -> object:
    """Relevant parts of a pod with claims."""
    return node_of(pod), is_finished(pod), status_of(pod).get("resourceClaimStatuses")
