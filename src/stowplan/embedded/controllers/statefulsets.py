"""StatefulSets: pods with names and volumes of their own, one after the other."""

from typing import ClassVar

from stowplan.api.catalogue import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.history import (
    HASH,
    forget_old,
    present_revision,
    revisions_of,
    template_of,
)
from stowplan.embedded.controllers.informers import namespace_of
from stowplan.embedded.controllers.objects import (
    controller_reference,
    count_in,
    is_deleting,
    name_of,
    selector_in,
    spec_of,
    status_of,
    uid_of,
)
from stowplan.embedded.controllers.ownership import claimed
from stowplan.embedded.controllers.statefuldecisions import (
    POD_INDEX,
    POD_NAME,
    Create,
    Step,
    View,
    claims_for,
    next_steps,
    ordinal_of,
    retention,
    revision_of,
    status_for,
    volumes_for,
)
from stowplan.embedded.controllers.templates import pod_from


class StatefulSets(Controller):
    """Keeps the pods of StatefulSets, and makes their claims."""

    name: ClassVar[str] = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.follow(STATEFUL_SETS)
        self.pods = self.follow_owned(PODS, STATEFUL_SETS.kind, self.sets)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.revisions = self.informer(CONTROLLER_REVISIONS)

    async def sync(self, key: str) -> None:
        obj = self.sets.get(key)
        if obj is None:
            return
        pods = await claimed(self, self.pods, STATEFUL_SETS, obj, selector_in(obj))
        self.rest(key, len(pods))
        held = revisions_of(self.revisions, obj)
        update = await present_revision(self, STATEFUL_SETS, obj, held)
        numbered = {n: pod for pod in pods if (n := ordinal_of(obj, pod)) is not None}
        current = status_of(obj).get("currentRevision") or name_of(update)
        if all(name_of(one) != current for one in held):
            current = name_of(update)
        view = View(obj, numbered, current, name_of(update), self.now())
        revisions = {name_of(one): one for one in (*held, update)}
        if not is_deleting(obj):
            for step in next_steps(view):
                await self._take(obj, step, revisions)
        await self.set_status(
            STATEFUL_SETS, obj, status_for(view, count_in(status_of(obj), "collisionCount"))
        )
        if count_in(spec_of(obj), "minReadySeconds"):
            self.queue.add_after(key, 1.0)
        used = {current, name_of(update), *map(revision_of, pods)}
        await forget_old(self, obj, held, used)

    async def _take(self, obj: Json, step: Step, revisions: dict[str, Json]) -> None:
        if isinstance(step, Create):
            await self._create(obj, step, revisions[step.revision])
            return
        if step.condemned and retention(obj, "whenScaled"):
            await self._condemn_claims(obj, step.pod)
        await self.delete(PODS, step.pod)
        set_name, pod_name = name_of(obj), name_of(step.pod)
        note = f"delete Pod {pod_name} in StatefulSet {set_name} successful"
        await self.tell(obj, "SuccessfulDelete", note)

    async def _create(self, obj: Json, step: Create, revision: Json) -> None:
        template, name = template_of(revision), f"{name_of(obj)}-{step.ordinal}"
        await self._create_claims(obj, step.ordinal)
        spec: Json = {"hostname": name, "volumes": volumes_for(obj, template, step.ordinal)}
        if spec_of(obj).get("serviceName"):
            spec["subdomain"] = spec_of(obj)["serviceName"]
        labels = {POD_NAME: name, POD_INDEX: str(step.ordinal), HASH: name_of(revision)}
        pod = pod_from(template, STATEFUL_SETS, obj, name=name, labels=labels, spec=spec)
        try:
            await self.create(PODS, pod)
        except ApiError as error:
            if error.is_already_exists:
                return
            note = f"create Pod {name} in StatefulSet {name_of(obj)} failed error: {error}"
            await self.tell(obj, "FailedCreate", note, WARNING)
            raise
        note = f"create Pod {name} in StatefulSet {name_of(obj)} successful"
        await self.tell(obj, "SuccessfulCreate", note)

    async def _create_claims(self, obj: Json, ordinal: int) -> None:
        owner = controller_reference(STATEFUL_SETS, obj) if retention(obj, "whenDeleted") else None
        for claim in claims_for(obj, ordinal, owner):
            name = claim["metadata"]["name"]
            if self.claims.get(f"{namespace_of(obj)}/{name}") is not None:
                continue
            try:
                await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
            except ApiError as error:
                if not error.is_already_exists:
                    raise
            note = f"create Claim {name} Pod {name_of(obj)}-{ordinal} in StatefulSet {name_of(obj)} success"
            await self.tell(obj, "SuccessfulCreate", note)

    async def _condemn_claims(self, obj: Json, pod: Json) -> None:
        """Let the claims of a pod that does not come back go with it."""
        ordinal = ordinal_of(obj, pod)
        assert ordinal is not None
        for claim in claims_for(obj, ordinal, None):
            held = self.claims.get(f"{namespace_of(obj)}/{claim['metadata']['name']}")
            if held is None:
                continue
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
            change = {"metadata": {"ownerReferences": [owner]}}
            await self.change(PERSISTENT_VOLUME_CLAIMS, held, change)
