"""Turning wire bytes or plain Python data into typed objects."""

from typing import Any, Final, Protocol, TypeVar

import msgspec

from stowplan.api import admission, coscheduling, devices, node, pod, pod_groups, storage, workloads, writes
from stowplan.api.meta import AnyObject, Namespace, Object
from stowplan.api.pruning import DEEPEST, UNMANAGED, Steps, at_once, depth_of, members, pruned, shape_of

T = TypeVar("T", bound=Object)

KINDS: dict[str, type[Object]] = {
    cls.__name__: cls
    for cls in (
        Namespace,
        pod.Pod,
        node.Node,
        storage.PersistentVolume,
        storage.PersistentVolumeClaim,
        storage.StorageClass,
        storage.CSINode,
        storage.CSIDriver,
        storage.CSIStorageCapacity,
        storage.VolumeAttachment,
        devices.DeviceClass,
        devices.DeviceTaintRule,
        devices.ResourceClaim,
        devices.ResourceClaimTemplate,
        devices.ResourceSlice,
        workloads.Service,
        workloads.ReplicationController,
        workloads.ReplicaSet,
        workloads.StatefulSet,
        workloads.Deployment,
        workloads.DaemonSet,
        workloads.Job,
        workloads.CronJob,
        workloads.PodDisruptionBudget,
        workloads.PriorityClass,
        admission.LimitRange,
        admission.ResourceQuota,
        admission.RuntimeClass,
        pod_groups.PodGroup,
        pod_groups.CompositePodGroup,
        coscheduling.CoschedulingPodGroup,
        writes.Binding,
        writes.Event,
        writes.CoreEvent,
        writes.Lease,
    )
}
"""Every kind stowplan has a type for, by its name."""


class DecodeError(ValueError):
    """An object that cannot be read; the message names the field and what was expected."""


class _Head(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


def _class_of(kind: str, api_version: Any) -> type[Object] | None:
    """The type of a kind; pod groups of scheduler-plugins and events of v1 share the name of another one."""
    if kind == pod_groups.PodGroup.__name__ and api_version == coscheduling.POD_GROUPS.api_version:
        return coscheduling.CoschedulingPodGroup
    if kind == writes.Event.__name__ and api_version == "v1":
        return writes.CoreEvent
    return KINDS.get(kind)


UNDECODABLE: Final = (ValueError, RecursionError, OverflowError)
"""Raised by decoding for texts that are malformed, of another type, nested too deeply or out of range."""

_decoders: dict[type[Object], msgspec.json.Decoder[Any]] = {}


def decode(data: bytes | str, cls: type[T]) -> T:
    """Decode JSON as an object of one kind. Raises DecodeError.

    Undeclared fields cannot fail it, however deep or malformed. Null counts as absent: servers now and then
    send it for an empty list or map.
    """
    return at_once(decoding(data, cls))


def decoding(data: bytes | str, cls: type[T]) -> Steps[T]:
    """The same in steps. Only when the straight way fails is the text cut down to what the type declares."""
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.json.Decoder(cls)
    try:
        result: T = decoder.decode(data)
    except UNDECODABLE:
        try:
            text = data.encode() if isinstance(data, str) else data
            result = decoder.decode((yield from pruned(text, shape_of(cls))))
        except UNDECODABLE as error:
            raise DecodeError(f"{cls.__name__}: {undecodable(error)}") from None
    return result


def decoding_plain(data: bytes) -> Steps[dict[str, Any]]:
    """Any object as plain data, in steps; if it cannot be decoded as it is, without its managedFields.

    A deep claim is cut down to its declared fields. Raises DecodeError.
    """
    try:
        if data.count(b"{") + data.count(b"[") > DEEPEST and b'"ResourceClaim"' in data:
            data = yield from _without_deep_values(data)
        return msgspec.json.decode(data, type=dict[str, Any])
    except UNDECODABLE:
        try:
            return msgspec.json.decode((yield from pruned(data, UNMANAGED)), type=dict[str, Any])
        except UNDECODABLE as error:
            raise DecodeError(f"object: {undecodable(error)}") from None


def _without_deep_values(data: bytes) -> Steps[bytes]:
    """JSON of an object with the deep values of a claim as text, also those that could just be decoded."""
    if (yield from depth_of(data)) <= DEEPEST:
        return data
    begin, end = (yield from members(data)).get(b"kind", (0, 0))
    is_claim = data[begin:end] == b'"ResourceClaim"'
    return (yield from pruned(data, shape_of(devices.ResourceClaim))) if is_claim else data


def undecodable(error: Exception) -> str:
    """Why something cannot be decoded."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def convert(data: Any, cls: type[T]) -> T:
    """Turn plain data (from YAML, say) into an object of one kind; nulls count as absent."""
    try:
        return msgspec.convert(_without_nulls(data), cls)
    except UNDECODABLE as error:
        raise DecodeError(f"{cls.__name__}: {undecodable(error)}") from None


def convert_any(data: Any) -> Object | None:
    """Turn plain data into an object of the kind it names, None for a kind stowplan does not read."""
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise DecodeError("object: expected a map with the field `kind`")
    cls = _class_of(data["kind"], data.get("apiVersion"))
    return None if cls is None else convert(data, cls)


class Builder(Protocol):
    """Something that makes an object, such as `stowplan.testing.node("n")`."""

    def obj(self) -> Object: ...


Given = Object | Builder | dict[str, Any]
"""An object as it may be given: as such, by a builder, or as a manifest."""


def as_object(given: Given) -> Object:
    """An object that is given as such, as a builder (anything with `obj()`), or as a manifest.

    A manifest of a kind that has no type here is an AnyObject. Raises TypeError, or DecodeError.
    """
    if isinstance(given, Object):
        return given
    if isinstance(given, dict):
        found = convert_any(given)
        if found is not None:
            return identified(found)
        try:
            return AnyObject.of(given)
        except msgspec.ValidationError as error:
            raise DecodeError(f"{given['kind']}: {error}") from None
    build = getattr(given, "obj", None)
    made = build() if callable(build) and not isinstance(given, type) else None
    if not isinstance(made, Object):
        raise TypeError(f"expected an object, a builder such as node('n') or a manifest, got {given!r:.80}")
    return made


def identified(obj: Object) -> Object:
    """A pod that somebody wrote by hand gets what every pod of a cluster has: a namespace and a uid."""
    metadata = obj.metadata
    if not isinstance(obj, pod.Pod) or (metadata.uid and metadata.namespace):
        return obj
    namespace = metadata.namespace or "default"
    uid = metadata.uid or f"pod-{namespace}/{metadata.name}"
    return msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(metadata, namespace=namespace, uid=uid)
    )


def decode_any(data: bytes | str) -> Object | None:
    """Decode JSON as the kind it names, None for a kind stowplan does not read."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except UNDECODABLE as error:
        raise DecodeError(f"object: {undecodable(error)}") from None
    cls = _class_of(head.kind, head.api_version)
    return None if cls is None else decode(data, cls)


def _without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(value) for value in data]
    return data
