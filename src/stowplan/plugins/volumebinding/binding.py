"""Writing down which volumes a pod gets, and waiting until they are bound or made."""

import asyncio
from typing import Any, Final

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from stowplan.api.decode import DecodeError, convert
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.nodeselector import compile_node_selector
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from stowplan.client import Client
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.interface import Services
from stowplan.plugins.volumebinding.demand import SELECTED_NODE, is_bound
from stowplan.plugins.volumebinding.migration import affinity_seen_from
from stowplan.plugins.volumebinding.reservation import Match, Request, Reservation

LOOK_AGAIN: Final = 1.0
"""Seconds after which pod and node are looked at again although nothing was heard of the volumes."""


class BindingError(Exception):
    """Why a pod did not get its volumes; it is to be scheduled anew."""


async def bind_volumes(
    table: ClusterTable, services: Services, reserved: Reservation, pod: PodInfo, node: str, seconds: float
) -> None:
    """Write what was reserved and wait until every claim is bound. Raises BindingError.

    What was written stays written: the next attempt starts from there.
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
                await watch.news()
    except TimeoutError:
        raise BindingError("binding volumes: context deadline exceeded") from None
    except _UndoneError as cause:
        raise BindingError(f"binding volumes: {cause}") from None


# Writing


async def _write(client: Client, reserved: Reservation) -> None:
    """Write volumes first, then claims. What is written is no longer only assumed; the rest can be undone."""
    for position, (claim, volume, _) in enumerate(reserved.matches):
        answer = await _put(client, PERSISTENT_VOLUMES, volume, _claimed(volume))
        reserved.matches[position] = Match(claim, convert(answer, PersistentVolume))
    for position, (claim, _) in enumerate(reserved.requests):
        asked = {"metadata": {"annotations": {SELECTED_NODE: claim.metadata.annotations[SELECTED_NODE]}}}
        answer = await _put(client, PERSISTENT_VOLUME_CLAIMS, claim, asked)
        reserved.requests[position] = Request(convert(answer, PersistentVolumeClaim))


def _claimed(volume: PersistentVolume) -> Json:
    """What makes a volume a claim's own."""
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


class _UndoneError(Exception):
    """Something that was reserved has come to nothing."""


class _Watch:
    """Watches volumes and claims, as the API server tells of them, until the claims are bound."""

    def __init__(
        self, table: ClusterTable, services: Services, reserved: Reservation, pod: PodInfo, node: str
    ) -> None:
        self._table = table
        self._services = services
        self._reserved = reserved
        self._pod = pod
        self._node = node
        self._volumes: set[str] = {match.volume.name for match in reserved.matches}

    async def news(self) -> None:
        """Wait until something is heard of the volumes or claims, or for a while."""
        claims = [match.claim.key for match in self._reserved.matches]
        claims += [request.claim.key for request in self._reserved.requests]
        try:
            async with asyncio.timeout(LOOK_AGAIN):
                await self._table.storage.changed(sorted(self._volumes), claims)
        except TimeoutError:
            return

    def all_bound(self) -> bool:
        """Whether every claim is bound. Raises _UndoneError."""
        found = self._table.node(self._node)
        if found is None:
            raise _UndoneError(f'failed to get node "{self._node}": node "{self._node}" not found')
        if self._services.pod(self._pod.key) is None:
            raise _UndoneError(f'pod does not exist any more: pod "{self._pod.name}" not found')
        return all(self._is_matched(match, found.node) for match in self._reserved.matches) and all(
            self._is_made(request.claim, found.node) for request in self._reserved.requests
        )

    def _is_matched(self, match: Match, node: Node) -> bool:
        storage = self._table.storage
        name, key = match.volume.name, match.claim.key
        volume, claim = storage.volumes.get(name), storage.claims.get(key)
        if volume is None:
            raise _UndoneError(f'failed to check binding: persistentvolumes "{name}" not found')
        if claim is None:
            raise _UndoneError(f'failed to check binding: persistentvolumeclaims "{key}" not found')
        if _is_older(volume, match.volume):
            return False
        self._check_reach(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise _UndoneError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(claim)

    def _is_made(self, written: PersistentVolumeClaim, node: Node) -> bool:
        storage = self._table.storage
        claim = storage.claims.get(written.key)
        if claim is None:
            raise _UndoneError(
                f'failed to check provisioning pvc: persistentvolumeclaims "{written.key}" not found'
            )
        if _is_older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise _UndoneError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node:
            raise _UndoneError(f'provisioning failed for PVC "{claim.name}"')
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
            raise _UndoneError(
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
    """Whether what the API server told is from before a write."""
    try:
        return int(told.metadata.resource_version) < int(written.metadata.resource_version)
    except ValueError:
        return False
