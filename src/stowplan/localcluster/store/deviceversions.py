"""resource.k8s.io in the versions before v1.

v1beta2 and v1alpha3 differ from v1 in their name only. In v1beta1 a request itself has the fields of
`exactly`, and a device has everything but its name in `basic`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_EXACTLY: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
"""The fields of a request of v1beta1 that `exactly` has in v1."""

Convert = Callable[[Json], Json]


class Forms(NamedTuple):
    """A kind in an older version: as which one it is stored, and how it is converted to and fro."""

    stored: Resource
    to_served: Convert
    to_stored: Convert


def _unchanged(spec: Json) -> Json:
    return spec


def _requests(spec: Json, convert: Convert) -> Json:
    devices = spec.get("devices") or {}
    if not devices.get("requests"):
        return spec
    return {**spec, "devices": {**devices, "requests": [convert(one) for one in devices["requests"]]}}


def _flat_request(request: Json) -> Json:
    kept = {field: value for field, value in request.items() if field != "exactly"}
    return kept | (request.get("exactly") or {})


def _nested_request(request: Json) -> Json:
    exactly = {field: request[field] for field in _EXACTLY if request.get(field) not in (None, "", 0)}
    kept = {field: value for field, value in request.items() if field not in _EXACTLY}
    return {**kept, "exactly": exactly} if exactly or not request.get("firstAvailable") else kept


def _of_template(convert: Convert) -> Convert:
    return lambda spec: {**spec, "spec": convert(spec["spec"])} if spec.get("spec") else spec


def _flat_claim(spec: Json) -> Json:
    return _requests(spec, _flat_request)


def _nested_claim(spec: Json) -> Json:
    return _requests(spec, _nested_request)


def _basic_devices(spec: Json) -> Json:
    if not spec.get("devices"):
        return spec
    return {**spec, "devices": [_basic_device(device) for device in spec["devices"]]}


def _basic_device(device: Json) -> Json:
    basic = {field: value for field, value in device.items() if field != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": basic}


def _plain_devices(spec: Json) -> Json:
    plain = {field: value for field, value in spec.items() if field not in ("nodeName", "allNodes") or value}
    if spec.get("devices"):
        plain["devices"] = [_plain_device(device) for device in spec["devices"]]
    return plain


def _plain_device(device: Json) -> Json:
    kept = {field: value for field, value in device.items() if field != "basic"}
    return kept | (device.get("basic") or {})


def form(
    served: Resource, stored: Resource, to_served: Convert = _unchanged, to_stored: Convert = _unchanged
) -> Forms:
    """A kind whose spec is converted so; without that, the versions differ in their name only."""

    def show(obj: Json) -> Json:
        return _converted(obj, served, to_served)

    def store(obj: Json) -> Json:
        return _converted(obj, stored, to_stored)

    return Forms(stored, show, store)


def _converted(obj: Json, resource: Resource, convert: Convert) -> Json:
    """An object, or a patch of one, in its current version with the spec converted."""
    kept = {**obj, "apiVersion": resource.api_version} if "apiVersion" in obj else {**obj}
    if isinstance(obj.get("spec"), dict):
        kept["spec"] = convert(obj["spec"])
    return kept


_STORED: Final = {
    resource.plural: resource
    for resource in (
        catalogue.RESOURCE_CLAIMS,
        catalogue.RESOURCE_CLAIM_TEMPLATES,
        catalogue.RESOURCE_SLICES,
        catalogue.DEVICE_CLASSES,
        catalogue.DEVICE_TAINT_RULES,
    )
}
_OF_V1BETA1: Final[Mapping[str, tuple[Convert, Convert]]] = {
    "resourceclaims": (_flat_claim, _nested_claim),
    "resourceclaimtemplates": (_of_template(_flat_claim), _of_template(_nested_claim)),
    "resourceslices": (_basic_devices, _plain_devices),
    "deviceclasses": (_unchanged, _unchanged),
}
OLDER_VERSIONS: Final[Mapping[Resource, Forms]] = {
    served: form(
        served,
        _STORED[served.plural],
        *(_OF_V1BETA1[served.plural] if served.version == "v1beta1" else (_unchanged, _unchanged)),
    )
    for served in catalogue.BUILT_IN
    if served.group == "resource.k8s.io" and served.storage_version
}
"""How the versions before v1 are converted."""
