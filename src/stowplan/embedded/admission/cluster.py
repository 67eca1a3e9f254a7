"""The rules of a cluster, in the order they are applied."""

from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.requests import Json
from stowplan.embedded.admission.defaults import DEFAULTS
from stowplan.embedded.admission.plugins import ON_CREATE, ON_UPDATE
from stowplan.embedded.admission.services import Addresses
from stowplan.embedded.admission.validation import check_created, check_replaced
from stowplan.embedded.store.admission import Lookup
from stowplan.gocompat.quoting import quote

_LASTING: Final = ("default", "kube-system", "kube-public")


class ClusterAdmission:
    """Defaults, then what depends on other objects, then whether all of it is as it has to be."""

    def __init__(self) -> None:
        self._addresses = Addresses()

    def creating(self, lookup: Lookup, resource: Resource, obj: Json) -> None:
        _check_namespace(lookup, resource, obj)
        fill_in = DEFAULTS.get(resource)
        if fill_in is not None:
            fill_in(obj)
        for complete in ON_CREATE.get(resource, ()):
            complete(lookup, obj)
        self._addresses.give(lookup, resource, obj, None)
        check_created(resource, obj)

    def replacing(self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str) -> None:
        if subresource:
            return
        fill_in = DEFAULTS.get(resource)
        if fill_in is not None:
            fill_in(new)
        for complete in ON_UPDATE.get(resource, ()):
            complete(old, new)
        self._addresses.give(lookup, resource, new, old)
        check_replaced(resource, old, new)

    def deleting(self, lookup: Lookup, resource: Resource, obj: Json) -> None:
        name = obj["metadata"]["name"]
        if resource == NAMESPACES and name in _LASTING:
            raise forbidden(resource, name, "this namespace may not be deleted")


def forbidden(resource: Resource, name: str, why: str) -> status.ApiError:
    """What somebody is told whose request breaks a rule of the cluster."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return status.ApiError(
        403,
        "Forbidden",
        f"{resource.qualified} {quote(name)} is forbidden: {why}",
        {key: value for key, value in details.items() if value},
    )


def _check_namespace(lookup: Lookup, resource: Resource, obj: Json) -> None:
    """Objects are made in namespaces that exist and are not on their way out."""
    if not resource.namespaced:
        return
    metadata = obj["metadata"]
    within = metadata["namespace"]
    namespace = lookup.find(NAMESPACES, "", within)
    if namespace is None:
        raise status.not_found(NAMESPACES, within)
    if "deletionTimestamp" not in namespace["metadata"]:
        return
    error = forbidden(
        resource,
        metadata["name"],
        f"unable to create new content in namespace {within} because it is being terminated",
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {within} is being terminated",
        "field": "metadata.namespace",
    }
    error.details["causes"] = [cause]
    raise error
