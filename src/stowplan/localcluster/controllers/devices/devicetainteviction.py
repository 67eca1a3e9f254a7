"""The device taint eviction controller: pods give up devices with NoExecute taints they do not tolerate."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from stowplan.api.catalogue import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.api.requests import Json, PatchType
from stowplan.api.rules.taints import NO_EXECUTE
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.devices.devicetaints import (
    EVICTION_IN_PROGRESS,
    NO_EFFECT,
    Affected,
    DeviceTaintEviction,
    TaintedDevice,
    Taints,
    allocated_devices,
    current,
    device_of,
    evicting_taints,
    generation_of,
    pool_of_slice,
    pools_of_claim,
    rule_condition,
    selects,
    taint_of,
)
from stowplan.localcluster.objects.fields import (
    condition_of,
    is_controlled_by,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    split_key,
    status_of,
    time_of,
    uid_of,
)
from stowplan.localcluster.objects.groupclaims import (
    group_key_of,
    is_group,
    is_owned_by_group_of,
    is_reserved_for,
)

POD: Final = "pod "
RULE: Final = "rule "
STATUS_PERIOD: Final = 10.0
"""Seconds between two reports about an ongoing eviction."""


@dataclass(slots=True)
class _Pending:
    """The eviction of a pod, which may be done already though the pod is still there."""

    uid: str
    done: bool = False


class DeviceTaintEvictionController(Controller):
    """Deletes pods whose devices have NoExecute taints, in their slices or by rules.

    Without `rules` (the gate DRADeviceTaintRules) only the taints in slices count.
    """

    name: ClassVar[str] = "device-taint-eviction-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext, *, rules: bool = True) -> None:
        super().__init__(context)
        self.pods = self.informer(PODS)
        self._members = self.pods.index(group_key_of)
        self.claims = self.informer(RESOURCE_CLAIMS)
        self.slices = self.informer(RESOURCE_SLICES)
        self._pools = self.slices.index(pool_of_slice)
        self._users_of_pool = self.claims.index(pools_of_claim)
        self._tainted: set[str] = set()
        """The slices with NoExecute taints."""
        self._evicting: dict[str, Json] = {}
        """The rules with the effect NoExecute."""
        self._evictions: dict[str, _Pending] = {}
        """Pods that are going to be evicted."""
        self._evicted: Counter[str] = Counter()
        """Number of pods evicted because of a rule, by its uid."""
        self.pods.add_handler(self._pod_changed)
        self.claims.add_handler(self._claim_changed)
        self.slices.add_handler(self._slice_changed)
        self.rules = self.informer(DEVICE_TAINT_RULES) if rules else None
        if self.rules is not None:
            self.rules.add_handler(self._rule_changed)

    # Events

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._evictions.pop(key_of(old), None)
        elif (
            self._is_watchful
            and spec_of(new).get("resourceClaims")
            and (old is None or _concern(old) != _concern(new))
        ):
            self.queue.add(POD + key_of(new))

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        if not self._is_watchful or (old is not None and new is not None and _use(old) == _use(new)):
            return
        for claim in (old, new):
            if claim is not None:
                self._look_at_users(claim)

    def _slice_changed(self, old: Json | None, new: Json | None) -> None:
        slice = new if new is not None else old
        assert slice is not None
        was_watchful = self._is_watchful
        if new is not None and evicting_taints(new):
            self._tainted.add(name_of(slice))
        else:
            self._tainted.discard(name_of(slice))
        if (was_watchful or self._is_watchful) and _evicting_part(old) != _evicting_part(new):
            for pool in pool_of_slice(slice):
                for claim in self._users_of_pool[pool].values():
                    self._look_at_users(claim)

    def _rule_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and uid_of(old) == uid_of(new):
            if spec_of(old) == spec_of(new):
                return
        elif old is not None:
            self._evicted.pop(uid_of(old), None)
        was_evicting = old is not None and self._evicting.pop(name_of(old), None) is not None
        if new is not None:
            self.queue.add(RULE + name_of(new))
            if taint_of(new).get("effect") == NO_EXECUTE:
                self._evicting[name_of(new)] = new
        if was_evicting or (new is not None and name_of(new) in self._evicting):
            for claim in self.claims:
                if allocated_devices(claim):
                    self._look_at_users(claim)

    @property
    def _is_watchful(self) -> bool:
        """True if any taint evicts at all; most of the time nothing has to be checked."""
        return bool(self._tainted or self._evicting or self._evictions)

    def _look_at_users(self, claim: Json) -> None:
        for consumer in status_of(claim).get("reservedFor") or ():
            key = f"{namespace_of(claim)}/{consumer.get('name', '')}"
            if is_group(consumer):
                for member in self._members[key]:
                    self.queue.add(POD + member)
            elif not consumer.get("apiGroup") and consumer.get("resource") == "pods":
                self.queue.add(POD + key)

    async def sync(self, key: str) -> None:
        if key.startswith(POD):
            await self._sync_pod(key.removeprefix(POD))
        else:
            rule = None if self.rules is None else self.rules.get(key.removeprefix(RULE))
            if rule is not None:
                await self._report(key, rule)

    # Pods

    async def _sync_pod(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or is_deleting(pod):
            return
        pending = self._evictions.get(key)
        if pending is not None and pending.uid != uid_of(pod):
            pending = None
        if pending is not None and pending.done:
            return
        eviction = self._eviction_of(pod, Taints(self._pools, self._evicting))
        if eviction is None:
            if pending is not None:
                del self._evictions[key]
                await self.record_event(_bare(pod), "DeviceTaintManagerEviction", "Cancelling deletion")
            return
        pending = self._evictions[key] = _Pending(uid_of(pod))
        left = eviction.at - self.now()
        if left > 0:
            self._report_later(eviction)
            self.queue.add_after(POD + key, left)
            return
        await self._evict(pod)
        pending.done = True
        self._evicted.update(eviction.rules)
        self._report_later(eviction)

    def _eviction_of(self, pod: Json, taints: Taints) -> DeviceTaintEviction | None:
        """When a pod has to go because of any of its claims, None if it may stay."""
        found: DeviceTaintEviction | None = None
        if node_of(pod):
            for claim in self._claims_of(pod):
                eviction = taints.eviction_of(claim)
                found = found if eviction is None else eviction.joined(found)
        return found

    def _claims_of(self, pod: Json) -> Iterator[Json]:
        """The claims that are reserved for a pod; those that were made for it have to be its own."""
        made = {
            one.get("name"): one.get("resourceClaimName")
            for one in status_of(pod).get("resourceClaimStatuses") or ()
        }
        for asked in spec_of(pod).get("resourceClaims") or ():
            name = asked.get("resourceClaimName") or made.get(asked.get("name"))
            claim = self.claims.get(f"{namespace_of(pod)}/{name}") if name else None
            if claim is None or not is_reserved_for(claim, pod):
                continue
            is_own = is_controlled_by(claim, pod) or is_owned_by_group_of(claim, pod)
            if asked.get("resourceClaimName") or is_own:
                yield claim

    async def _evict(self, pod: Json) -> None:
        namespace, name = namespace_of(pod), name_of(pod)
        await self.record_event(_bare(pod), "DeviceTaintManagerEviction", "Marking for deletion")
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": self.stamp(),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status")
        await self.delete(PODS, pod)

    # Rules

    def _report_later(self, eviction: DeviceTaintEviction) -> None:
        for rule in self._evicting.values():
            if uid_of(rule) in eviction.rules:
                self.queue.add_after(RULE + name_of(rule), STATUS_PERIOD)

    async def _report(self, key: str, rule: Json) -> None:
        """Write the condition of a rule if it is another one: at once after a change, then now and then."""
        known = condition_of(rule, EVICTION_IN_PROGRESS)
        generation = rule["metadata"].get("generation", 0)
        if known is not None and known.get("observedGeneration", 0) == generation:
            since = self.now() - time_of(known.get("lastTransitionTime"))
            if since < STATUS_PERIOD:
                self.queue.add_after(key, STATUS_PERIOD - since)
                return
        condition = rule_condition(rule, self._affected(rule), self._evicted[uid_of(rule)])
        if known is not None and all(known.get(field) == value for field, value in condition.items()):
            return
        dated = {**condition, "lastTransitionTime": self.stamp()}
        patch = {"metadata": {"uid": uid_of(rule)}, "status": {"conditions": [dated]}}
        written = await self.client.patch(
            DEVICE_TAINT_RULES, "", name_of(rule), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(DEVICE_TAINT_RULES, written)

    def _affected(self, rule: Json) -> Affected:
        """Whom a rule evicts; of one without an effect, whom it would evict, and what it selects."""
        effect = taint_of(rule).get("effect")
        if effect not in (NO_EXECUTE, NO_EFFECT):
            return Affected(0, 0)
        driving = {**rule, "spec": {**spec_of(rule), "taint": {**taint_of(rule), "effect": NO_EXECUTE}}}
        taints = Taints(self._pools, {name_of(rule): driving})
        pods = 0
        namespaces: set[str] = set()
        for pod in self.pods:
            if is_deleting(pod) or not spec_of(pod).get("resourceClaims"):
                continue
            eviction = self._eviction_of(pod, taints)
            if eviction is not None and uid_of(rule) in eviction.rules:
                pods += 1
                namespaces.add(namespace_of(pod))
        published = 0 if effect == NO_EXECUTE else sum(selects(rule, one) for one in self._published())
        allocated = 0 if effect == NO_EXECUTE else sum(selects(rule, one) for one in self._allocated())
        return Affected(pods, len(namespaces), published, allocated)

    def _published(self) -> Iterator[TaintedDevice]:
        pools = dict.fromkeys(pool for slice in self.slices for pool in pool_of_slice(slice))
        for pool in pools:
            for slice in current(self._pools[pool].values()):
                spec = spec_of(slice)
                for device in spec.get("devices") or ():
                    name = (spec.get("pool") or {}).get("name", "")
                    yield TaintedDevice(spec.get("driver", ""), name, device.get("name", ""))

    def _allocated(self) -> Iterator[TaintedDevice]:
        for claim in self.claims:
            yield from map(device_of, allocated_devices(claim))


def _bare(pod: Json) -> Json:
    """A pod by what names it, as its events do."""
    namespace, name = split_key(key_of(pod))
    metadata = {"name": name, "namespace": namespace, "uid": uid_of(pod)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def _concern(pod: Json) -> object:
    """Relevant parts of a pod."""
    return node_of(pod), status_of(pod).get("resourceClaimStatuses")


def _evicting_part(slice: Json | None) -> object:
    """Relevant parts of a slice."""
    return None if slice is None else (generation_of(slice), evicting_taints(slice))


def _use(claim: Json) -> object:
    """Relevant parts of a claim."""
    status = status_of(claim)
    return status.get("allocation"), status.get("reservedFor")
