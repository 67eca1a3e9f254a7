"""Administrative access to devices is only given in namespaces that are labelled for it."""

from collections.abc import Sequence
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from stowplan.api.fielderrors import forbidden
from stowplan.api.requests import Json
from stowplan.localcluster.store.registry import Lookup

LABEL: Final = "resource.kubernetes.io/admin-access"


def check_requested(lookup: Lookup, resource: Resource, obj: Json) -> None:
    """Raises `ApiError` 422 for a claim, or a template of claims, that asks for what its namespace lacks."""
    if resource not in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES):
        return
    spec = obj.get("spec") or {}
    spec = spec if resource == RESOURCE_CLAIMS else spec.get("spec") or {}
    requests = (spec.get("devices") or {}).get("requests") or ()
    asked = [(request.get("exactly") or {}).get("adminAccess") for request in requests]
    _check(lookup, resource, obj, asked, "spec.devices.requests")


def check_granted(lookup: Lookup, resource: Resource, old: Json, new: Json) -> None:
    """Raises `ApiError` 422 if a new allocation grants it; one that was made before stays as it is."""
    if resource != RESOURCE_CLAIMS or any(_granted(old)):
        return
    _check(lookup, resource, new, _granted(new), "status.allocation.devices.results")


def _granted(claim: Json) -> list[object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [one.get("adminAccess") for one in (allocation.get("devices") or {}).get("results") or ()]


def _check(lookup: Lookup, resource: Resource, obj: Json, asked: Sequence[object], path: str) -> None:
    place = next((i for i, one in enumerate(asked) if one), None)
    if place is None:
        return
    metadata = obj["metadata"]
    namespace = lookup.find(NAMESPACES, "", metadata["namespace"]) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(LABEL) == "true":
        return
    why = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
    raise status.invalid(resource, metadata["name"], [forbidden(f"{path}[{place}].adminAccess", why)])
