"""The admission chain: defaults, then plugins, then validation."""

from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.requests import Json
from stowplan.embedded.admission.defaults import DEFAULTS
from stowplan.embedded.admission.plugins import ON_CREATE, ON_UPDATE, ServiceAllocator
from stowplan.embedded.admission.roles import RoleGuard
from stowplan.embedded.admission.validation import check_created, check_updated
from stowplan.embedded.customresources.versions import ServedVersion
from stowplan.embedded.store.registry import Lookup
from stowplan.embedded.store.writer import WriteContext
from stowplan.gocompat.quoting import quote

_PROTECTED_NAMESPACES: Final = ("default", "kube-system", "kube-public")


class ClusterAdmission:
    """Defaults, then plugins (what depends on other objects), then validation."""

    def __init__(self) -> None:
        self._services = ServiceAllocator()
        self._roles = RoleGuard()

    def admit_create(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> None:
        _check_namespace(lookup, resource, obj)
        set_defaults = DEFAULTS.get(resource)
        if set_defaults is not None:
            set_defaults(obj)
        for plugin in ON_CREATE.get(resource, ()):
            plugin(lookup, obj)
        self._services.allocate(lookup, resource, obj, None)
        self._roles.check(lookup, resource, None, obj, by)
        custom = _admit_custom(lookup, resource, obj)
        if custom is not None and custom.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource, obj["metadata"]["name"], why)
        check_created(resource, obj, custom)

    def admit_update(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> None:
        custom = _admit_custom(lookup, resource, new)
        if subresource:
            if custom is not None:
                check_updated(resource, old, {**old, "status": new.get("status")}, custom, subresource)
            return
        set_defaults = DEFAULTS.get(resource)
        if set_defaults is not None:
            set_defaults(new)
        for plugin in ON_UPDATE.get(resource, ()):
            plugin(old, new)
        self._services.allocate(lookup, resource, new, old)
        self._roles.check(lookup, resource, old, new, by)
        check_updated(resource, old, new, custom)

    def admit_delete(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> None:
        name = obj["metadata"]["name"]
        if resource == NAMESPACES and name in _PROTECTED_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")


def _admit_custom(lookup: Lookup, resource: Resource, obj: Json) -> ServedVersion | None:
    """Prune a custom object and fill in its defaults; gives back what is defined about it."""
    custom = lookup.definitions.version_of(resource) if resource.defined else None
    if custom is not None:
        custom.prepare(obj)
    return custom


def forbidden(resource: Resource, name: str, why: str) -> status.ApiError:
    """A refusal by admission."""
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
