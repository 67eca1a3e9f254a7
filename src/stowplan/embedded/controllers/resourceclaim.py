"""The resource claim controller: claims from templates for pods, and claims that nobody uses any more."""

from collections.abc import Iterator
from typing import ClassVar, Final

from stowplan.api.catalogue import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller, RetryLater
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.objects import (
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

CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"
POD: Final = "pod "
CLAIM: Final = "claim "
MAX_RESERVED: Final = 256
_MAX_PREFIX: Final = 57


def claim_from(template: Json, pod: Json, entry: str) -> Json:
    """The claim of a template that a pod asks for under a name of its own."""
    spec = spec_of(template)
    metadata = spec.get("metadata") or {}
    made: Json = {
        "generateName": _prefix(name_of(pod), entry),
        "namespace": namespace_of(pod),
        "annotations": {**(metadata.get("annotations") or {}), CLAIM_NAME: entry},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod), "controller": True}
        ],
    }
    if metadata.get("labels"):
        made["labels"] = dict(metadata["labels"])
    return {"metadata": made, "spec": spec.get("spec") or {}}


def _prefix(pod: str, entry: str) -> str:
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MAX_PREFIX:
        return whole
    return f"{pod[: len(pod) * _MAX_PREFIX // len(whole)]}-{entry[: len(entry) * _MAX_PREFIX // len(whole)]}"


def is_done(pod: Json) -> bool:
    """Whether a pod will not run any more."""
    return is_finished(pod) or (is_deleting(pod) and not node_of(pod))


def claim_names(pod: Json) -> list[str]:
    """The claims of a pod, by their keys."""
    status = status_of(pod)
    names = [one.get("resourceClaimName") for one in spec_of(pod).get("resourceClaims") or ()]
    names += [one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()]
    names.append((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [f"{namespace_of(pod)}/{name}" for name in names if name]


def _templates_of(pod: Json) -> list[str]:
    asked = (one.get("resourceClaimTemplateName") for one in spec_of(pod).get("resourceClaims") or ())
    return [f"{namespace_of(pod)}/{name}" for name in asked if name]


class ResourceClaimController(Controller):
    """Makes claims from templates, and takes reservations off pods that are done."""

    name: ClassVar[str] = "resourceclaim-controller"
    event_source: ClassVar[str] = "resource_claim"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informer(PODS)
        self.claims = self.informer(RESOURCE_CLAIMS)
        self.templates = self.informer(RESOURCE_CLAIM_TEMPLATES)
        self._waiting = self.pods.index(_templates_of)
        self._users = self.pods.index(claim_names)
        self.pods.add_handler(self._pod_changed)
        self.claims.add_handler(self._claim_changed)
        self.templates.add_handler(self._template_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if not (spec_of(pod).get("resourceClaims") or "extendedResourceClaimStatus" in status_of(pod)):
            return
        if new is None or is_done(new):
            for key in claim_names(pod):
                self.queue.add(CLAIM + key)
        elif not is_deleting(new) and (old is None or _concern(old) != _concern(new)):
            self.queue.add(POD + key_of(new))

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self.queue.add(CLAIM + key_of(new))
            if "allocation" in status_of(new):
                for key, pod in self._users[key_of(new)].items():
                    if node_of(pod) and not _is_reserved(new, pod):
                        self.queue.add(POD + key)
        if old is not None and new is None:
            owner = controller_of(old)
            if owner is not None and owner.get("kind") == "Pod":
                self.queue.add(f"{POD}{namespace_of(old)}/{owner['name']}")

    def _template_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            for key in self._waiting[key_of(new)]:
                self.queue.add(POD + key)

    async def sync(self, key: str) -> None:
        if key.startswith(POD):
            pod = self.pods.get(key.removeprefix(POD))
            if pod is not None and not is_deleting(pod) and not is_finished(pod):
                await self._sync_pod(pod)
        else:
            claim = self.claims.get(key.removeprefix(CLAIM))
            if claim is not None:
                await self._sync_claim(claim)

    # Pods

    async def _sync_pod(self, pod: Json) -> None:
        made: dict[str, str] = {}
        for asked in spec_of(pod).get("resourceClaims") or ():
            if asked.get("resourceClaimTemplateName") and not self._has_claim(pod, asked["name"]):
                made[asked["name"]] = await self._claim_for(pod, asked)
        if made:
            pod = await self._tell_pod(pod, made)
        if node_of(pod):
            await self._reserve(pod)

    def _has_claim(self, pod: Json, entry: str) -> bool:
        """Whether the claim that a pod's status names for an entry is there and the pod's own."""
        for status in status_of(pod).get("resourceClaimStatuses") or ():
            if status.get("name") == entry:
                name = status.get("resourceClaimName")
                claim = self.claims.get(f"{namespace_of(pod)}/{name}")
                return not name or (claim is not None and is_controlled_by(claim, pod))
        return False

    async def _claim_for(self, pod: Json, asked: Json) -> str:
        """The name of the claim of an entry, which is made if there is none yet."""
        for claim in self.claims.by_owner[uid_of(pod)].values():
            if annotations_of(claim).get(CLAIM_NAME) == asked["name"] and not is_deleting(claim):
                return name_of(claim)
        named = asked["resourceClaimTemplateName"]
        template = self.templates.get(f"{namespace_of(pod)}/{named}")
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{named}" not found'
            raise await self._failed(pod, asked["name"], f'resource claim template "{named}": {missing}')
        try:
            return name_of(await self.create(RESOURCE_CLAIMS, claim_from(template, pod, asked["name"])))
        except ApiError as error:
            raise await self._failed(pod, asked["name"], f"create ResourceClaim : {error.message}") from error

    async def _failed(self, pod: Json, entry: str, problem: str) -> RetryLater:
        note = f"PodResourceClaim {entry}: {problem}"
        await self.record_event(pod, "FailedResourceClaimCreation", note, WARNING)
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
        for key in claim_names(pod):
            claim = self.claims.get(key)
            if claim is None or "allocation" not in status_of(claim):
                continue
            reserved = list(status_of(claim).get("reservedFor") or ())
            if _is_reserved(claim, pod) or len(reserved) >= MAX_RESERVED or is_deleting(claim):
                continue
            mine = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
            await self.set_status(RESOURCE_CLAIMS, claim, {"reservedFor": [*reserved, mine]})

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
        """Whether a consumer still needs a claim; of kinds other than pods that is not known."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        pod = self.pods.get(f"{namespace_of(claim)}/{consumer.get('name', '')}")
        if pod is None:
            try:
                pod = await self.client.get(PODS, namespace_of(claim), consumer.get("name", ""))
            except ApiError as error:
                if error.is_not_found:
                    return False
                raise
        return uid_of(pod) == consumer.get("uid") and not is_done(pod)

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


def _is_reserved(claim: Json, pod: Json) -> bool:
    return any(one.get("uid") == uid_of(pod) for one in status_of(claim).get("reservedFor") or ())


def _concern(pod: Json) -> object:
    """What of a pod with claims matters here."""
    return node_of(pod), is_finished(pod), status_of(pod).get("resourceClaimStatuses")
