"""Assumes the volumes found for a pod, writes the bindings, and waits until the claims are bound."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from stowplan.api.decode import DecodeError, convert
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.requests import Json
from stowplan.api.rules.nodeselector import compile_node_selector
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from stowplan.client import Client
from stowplan.scheduler.framework import PodInfo, Services
from stowplan.scheduler.plugins.volumebinding.claims import (
    SELECTED_NODE,
    affinity_seen_from,
    is_bound,
    is_bound_to_claim,
)
from stowplan.scheduler.plugins.volumebinding.placement import VolumePlacement
from stowplan.scheduler.table.storage import AssumeError, Storage
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.volumepools import VolumeGroup

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

CHECK_INTERVAL: Final = 1.0
"""Seconds after which pod and node are checked again although no volume or claim changed."""


class BindingInfo(NamedTuple):
    """A claim and the volume it is to be bound to, whose claimRef names it.

    `assumed`: in memory only, and for this pod.
    """

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    assumed: bool = False


class DynamicProvision(NamedTuple):
    """A claim that asks for a volume to be provisioned; `assumed` as with a binding."""

    claim: PersistentVolumeClaim
    assumed: bool = False


@dataclass(slots=True)
class PodVolumes:
    """Writes for a pod: volumes bound to claims, and claims that request provisioning.

    A written object is replaced by the API server's answer.
    """

    static_bindings: list[BindingInfo] = field(default_factory=list)
    dynamic_provisions: list[DynamicProvision] = field(default_factory=list)

    def revert(self, storage: Storage) -> None:
        """Revert what is only assumed. Another pod with the same claim keeps what it has assumed."""
        for binding in self.static_bindings:
            if binding.assumed:
                storage.restore_volume(binding.volume)
        for provision in self.dynamic_provisions:
            if provision.assumed:
                storage.restore_claim(provision.claim)


def assume_pod_volumes(
    storage: Storage, unbound: Sequence[PersistentVolumeClaim], placement: VolumePlacement, node: str
) -> PodVolumes:
    """Assume the bindings of a placement. Raises AssumeError, having assumed nothing."""
    reserved = PodVolumes()
    try:
        for number, source in placement.static_bindings:
            name = source.first() if isinstance(source, VolumeGroup) else source.name
            reserved.static_bindings.append(_static_binding(storage, unbound[number], name))
        for number, _ in placement.dynamic_provisions:
            reserved.dynamic_provisions.append(_dynamic_provision(storage, unbound[number], node))
    except AssumeError:
        reserved.revert(storage)
        raise
    return reserved


def _static_binding(storage: Storage, claim: PersistentVolumeClaim, name: str) -> BindingInfo:
    volume = storage.volume(name)
    if volume is None:
        raise AssumeError(f'persistentvolumes "{name}" not found')
    taken = bound_to_claim(volume, claim)
    if taken is volume:
        return BindingInfo(claim, taken)
    storage.assume_volume(taken)
    return BindingInfo(claim, taken, assumed=True)


def bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume bound to a claim, annotated as bound by a controller unless it was pre-bound to the claim."""
    annotations = volume.metadata.annotations
    if not is_bound_to_claim(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
        volume = replace(volume, metadata=replace(volume.metadata, annotations=annotations))
    ref = volume.spec.claim_ref
    meta = claim.metadata
    if ref is not None and (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid):
        return volume
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version="v1",
        resource_version=meta.resource_version,
    )
    return replace(volume, spec=replace(volume.spec, claim_ref=reference))


def _dynamic_provision(storage: Storage, claim: PersistentVolumeClaim, node: str) -> DynamicProvision:
    annotations = claim.metadata.annotations
    if annotations.get(SELECTED_NODE) == node:
        return DynamicProvision(claim)
    asking = {**annotations, SELECTED_NODE: node}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=asking))
    storage.assume_claim(claim)
    return DynamicProvision(claim, assumed=True)


class BindingError(Exception):
    """Why binding a pod's volumes failed; the pod is scheduled again."""


async def bind_volumes(
    table: ClusterTable, services: Services, reserved: PodVolumes, pod: PodInfo, node: str, seconds: float
) -> None:
    """Write the assumed bindings and wait until every claim is bound. Raises BindingError.

    Written objects stay: the next attempt starts from there.
    """
    try:
        await _write(services.client, reserved)
    except ApiError as cause:
        raise BindingError(cause.message) from cause
    except DecodeError as cause:
        raise BindingError(str(cause)) from None
    watch = _Watch(table, services, reserved, pod, node)
    try:
        async with asyncio.timeout(seconds):
            while not watch.all_bound():
                await watch.changed()
    except TimeoutError:
        raise BindingError("binding volumes: context deadline exceeded") from None
    except _BindingFailedError as cause:
        raise BindingError(f"binding volumes: {cause}") from None


# Writing


async def _write(client: Client, reserved: PodVolumes) -> None:
    """Write volumes first, then claims. Written objects are no longer assumed; the rest can be reverted."""
    for position, (claim, volume, _) in enumerate(reserved.static_bindings):
        answer = await _put(client, PERSISTENT_VOLUMES, volume, _claimed(volume))
        reserved.static_bindings[position] = BindingInfo(claim, convert(answer, PersistentVolume))
    for position, (claim, _) in enumerate(reserved.dynamic_provisions):
        asked = {"metadata": {"annotations": {SELECTED_NODE: claim.metadata.annotations[SELECTED_NODE]}}}
        answer = await _put(client, PERSISTENT_VOLUME_CLAIMS, claim, asked)
        reserved.dynamic_provisions[position] = DynamicProvision(convert(answer, PersistentVolumeClaim))


def _claimed(volume: PersistentVolume) -> Json:
    """The fields of a volume that bind it to its claim."""
    ref = volume.spec.claim_ref
    assert ref is not None
    reference = {
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
        "apiVersion": ref.api_version,
        "resourceVersion": ref.resource_version,
    }
    return {
        "metadata": {"annotations": dict(volume.metadata.annotations)},
        "spec": {"claimRef": {key: value for key, value in reference.items() if value}},
    }


async def _put(client: Client, resource: Resource, obj: Object, changes: Json) -> Json:
    """Replace an object by itself with changes, unless it is no longer the version they were made for.

    It is read first, for the fields that scheduling does not know; the version makes sure of the rest.
    """
    current = await client.get(resource, obj.namespace, obj.name)
    body = _merged(current, changes)
    body = _merged(body, {"metadata": {"resourceVersion": obj.metadata.resource_version}})
    return await client.update(resource, body)


def _merged(whole: Json, part: Json) -> Json:
    """A map with the entries of another in it, maps within maps; neither is changed."""
    merged: dict[str, Any] = dict(whole)
    for key, value in part.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


# Waiting


class _BindingFailedError(Exception):
    """A binding that can no longer succeed."""


class _Watch:
    """Checks volumes and claims as they change until the claims are bound."""

    def __init__(
        self, table: ClusterTable, services: Services, reserved: PodVolumes, pod: PodInfo, node: str
    ) -> None:
        self._table = table
        self._services = services
        self._reserved = reserved
        self._pod = pod
        self._node = node
        self._volumes: set[str] = {binding.volume.name for binding in reserved.static_bindings}

    async def changed(self) -> None:
        """Wait until one of the volumes or claims changes, for a second at most."""
        claims = [binding.claim.key for binding in self._reserved.static_bindings]
        claims += [provision.claim.key for provision in self._reserved.dynamic_provisions]
        try:
            async with asyncio.timeout(CHECK_INTERVAL):
                await self._table.storage.changed(sorted(self._volumes), claims)
        except TimeoutError:
            return

    def all_bound(self) -> bool:
        """True if every claim is bound. Raises _BindingFailedError."""
        found = self._table.node(self._node)
        if found is None:
            raise _BindingFailedError(f'failed to get node "{self._node}": node "{self._node}" not found')
        if self._services.pod(self._pod.key) is None:
            raise _BindingFailedError(f'pod does not exist any more: pod "{self._pod.name}" not found')
        return all(self._is_bound(binding, found.node) for binding in self._reserved.static_bindings) and all(
            self._is_provisioned(provision.claim, found.node)
            for provision in self._reserved.dynamic_provisions
        )

    def _is_bound(self, binding: BindingInfo, node: Node) -> bool:
        storage = self._table.storage
        name, key = binding.volume.name, binding.claim.key
        volume, claim = storage.volumes.get(name), storage.claims.get(key)
        if volume is None:
            raise _BindingFailedError(f'failed to check binding: persistentvolumes "{name}" not found')
        if claim is None:
            raise _BindingFailedError(f'failed to check binding: persistentvolumeclaims "{key}" not found')
        if _is_older(volume, binding.volume):
            return False
        self._check_reach(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise _BindingFailedError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(claim)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: Node) -> bool:
        storage = self._table.storage
        claim = storage.claims.get(written.key)
        if claim is None:
            raise _BindingFailedError(
                f'failed to check provisioning pvc: persistentvolumeclaims "{written.key}" not found'
            )
        if _is_older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise _BindingFailedError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node:
            raise _BindingFailedError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = storage.volumes.get(claim.spec.volume_name)
            if volume is None:
                self._volumes.add(claim.spec.volume_name)
                return False
            self._check_reach(volume, node)
        return is_bound(claim)

    def _check_reach(self, volume: PersistentVolume, node: Node) -> None:
        csi_node = self._table.storage.csi_nodes.get(node.name)
        problem = _out_of_reach(affinity_seen_from(volume, csi_node), node)
        if problem is not None:
            raise _BindingFailedError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": {problem}'
            )


def _out_of_reach(affinity: VolumeNodeAffinity | None, node: Node) -> str | None:
    """Why a node does not reach a volume, None if it does. Only labels count."""
    if affinity is None or affinity.required is None:
        return None
    selector = compile_node_selector(affinity.required)
    if selector.matches(node.metadata.labels, ""):
        return None
    return selector.parse_error or "no matching NodeSelectorTerms"


def _is_older(told: Object, written: Object) -> bool:
    """True if a version reported by the API server is from before a write."""
    try:
        return int(told.metadata.resource_version) < int(written.metadata.resource_version)
    except ValueError:
        return False
