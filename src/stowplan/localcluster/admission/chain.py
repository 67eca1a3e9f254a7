"""The admission chain: defaults, mutating plugins, the kind's strategy, validation, validating plugins."""

from collections.abc import Callable, Collection
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    ROLES,
    SERVICES,
    Resource,
)
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.requests import Json
from stowplan.localcluster.admission import adminaccess
from stowplan.localcluster.admission.bootstrap import SYSTEM_PRIORITIES
from stowplan.localcluster.admission.claimguard import check_status_writer
from stowplan.localcluster.admission.defaults import DATED, DEFAULTS
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures
from stowplan.localcluster.admission.plugins import (
    CHECK_CREATED,
    CHECK_UPDATED,
    MUTATE_CREATED,
    MUTATE_UPDATED,
    MUTATE_WITHOUT_POLICY,
    enabled,
)
from stowplan.localcluster.admission.plugins.resourcequota import charge_quotas
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.admission.serviceips import ServiceAllocator
from stowplan.localcluster.admission.strategy import (
    PREPARE_CREATED,
    PREPARE_POD_PART,
    PREPARE_STATUS,
    PREPARE_UPDATED,
    date_changed_effect,
    set_requestor,
)
from stowplan.localcluster.admission.validation import (
    check_created,
    check_loaded,
    check_status,
    check_updated,
)
from stowplan.localcluster.auth.escalation import check_escalation
from stowplan.localcluster.auth.rbac import AccessRules
from stowplan.localcluster.auth.users import MASTERS, User
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.registry import APPROVAL, POD_PARTS, Lookup
from stowplan.localcluster.store.writer import WriteContext

_PROTECTED_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_ROLES: Final = frozenset((CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES))
_KUBELETS: Final = "system:kubelet"
Commit = Callable[[], None]


class ClusterAdmission:
    """Everything an API server does to an object before it stores it.

    `disabled`: plugins to leave out, by name. `groups`: the enabled parts of pod groups. `gates`: decide
    about optional fields of devices, and have the release whose rules hold.
    """

    def __init__(
        self,
        *,
        disabled: Collection[str] = (),
        groups: GroupFeatures | None = None,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._devices = DeviceFeatures.of(gates)
        self._services = ServiceAllocator()
        self._groups = GroupFeatures() if groups is None else groups
        mutating = MUTATE_CREATED if self._groups.preemption_policy else MUTATE_WITHOUT_POLICY
        self._mutate_created = enabled(mutating, disabled)
        self._mutate_updated = enabled(MUTATE_UPDATED, disabled)
        self._check_created = enabled(CHECK_CREATED, disabled)
        self._check_updated = enabled(CHECK_UPDATED, disabled)
        self._quotas = "ResourceQuota" not in disabled
        self._roles = RoleGuard()

    def set_defaults(self, resource: Resource, obj: Json, stamp: str) -> None:
        """Set defaults that do not depend on other objects; the writer owns these fields too."""
        set_defaults = DEFAULTS.get(resource)
        if set_defaults is not None:
            set_defaults(obj)
        date = DATED.get(resource)
        if date is not None:
            date(obj, stamp)

    def admit_create(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> Commit | None:
        _check_namespace(lookup, resource, obj)
        if resource != NODES or not _is_ready_at_once(obj, by):
            for plugin in self._mutate_created.get(resource, ()):
                plugin(lookup, obj)
        prepare = PREPARE_CREATED.get(resource)
        if prepare is not None:
            prepare(obj)
        self._groups.drop_disabled(resource, None, obj)
        self._devices.drop_disabled(resource, None, obj)
        if resource == CERTIFICATE_SIGNING_REQUESTS:
            set_requestor(obj, by)
        self._roles.check(lookup, resource, None, obj, by)
        custom = lookup.definitions.version_of(resource) if resource.defined else None
        if custom is not None and custom.is_terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource, obj["metadata"]["name"], why)
        off = self._groups.errors(resource, None, obj)
        check_created(resource, obj, custom, self._devices, off)
        adminaccess.check_requested(lookup, resource, obj)
        if resource == SERVICES:
            self._services.allocate(lookup, obj, None)
        for plugin in self._check_created.get(resource, ()):
            plugin(lookup, obj)
        return charge_quotas(lookup, resource, None, obj, "") if self._quotas else None

    def admit_loaded(self, resource: Resource, obj: Json) -> None:
        """Validation only: plugins did their part where the object comes from."""
        check_loaded(resource, obj, self._devices)

    def admit_update(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> Commit | None:
        custom = lookup.definitions.version_of(resource) if resource.defined else None
        if subresource == "status":
            prepare_status = PREPARE_STATUS.get(resource)
            if prepare_status is not None:
                prepare_status(old, new)
            self._devices.drop_disabled(resource, old, new, status=True)
            check_status(resource, old, new, custom)
            adminaccess.check_granted(lookup, resource, old, new)
            check_status_writer(lambda: self._roles.access(lookup), resource, old, new, by)
            return None
        if subresource in ("finalize", APPROVAL):
            return None
        if subresource in POD_PARTS:
            return self._admit_pod_part(lookup, old, new, subresource)
        for plugin in self._mutate_updated.get(resource, ()):
            plugin(lookup, old, new)
        prepare = PREPARE_UPDATED.get(resource)
        if prepare is not None:
            prepare(old, new)
        self._groups.drop_disabled(resource, old, new)
        self._devices.drop_disabled(resource, old, new)
        if resource == DEVICE_TAINT_RULES:
            date_changed_effect(old, new, lookup.stamp())
        if resource == SERVICES:
            self._services.keep(old, new)
        self._roles.check(lookup, resource, old, new, by)
        off = self._groups.errors(resource, old, new)
        check_updated(resource, old, new, subresource, custom, self._devices, off)
        if resource == SERVICES:
            self._services.allocate(lookup, new, old)
        for plugin in self._check_updated.get(resource, ()):
            plugin(lookup, old, new)
        return charge_quotas(lookup, resource, old, new, subresource) if self._quotas else None

    def _admit_pod_part(self, lookup: Lookup, old: Json, new: Json, subresource: str) -> Commit | None:
        """Ephemeral containers, and other resources of a pod: nothing else is changed by these."""
        PREPARE_POD_PART[subresource](old, new)
        check_updated(PODS, old, new, subresource)
        if subresource != "resize":
            return None
        for plugin in self._check_created.get(PODS, ()):
            plugin(lookup, new)
        return charge_quotas(lookup, PODS, old, new, subresource) if self._quotas else None

    def admit_delete(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> None:
        name = obj["metadata"]["name"]
        if resource == NAMESPACES and name in _PROTECTED_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if resource == PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")


def _is_ready_at_once(node: Json, by: WriteContext) -> bool:
    """True if a node registers itself as ready and is: a simulated one that this process runs.

    It needs no taint until its readiness is observed. In a cluster with thousands of nodes removing the
    taints would be half of the work of starting it.
    """
    if by.user.name != _KUBELETS:
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _check_namespace(lookup: Lookup, resource: Resource, obj: Json) -> None:
    """NamespaceLifecycle: objects are made in namespaces that exist and are not on their way out."""
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


class RoleGuard:
    """Checks that writers of roles and bindings grant no rights beyond their own.

    Knows the roles of one store, from the first request on.
    """

    def __init__(self) -> None:
        self._access: AccessRules | None = None

    def access(self, lookup: Lookup) -> AccessRules | None:
        """Access rules of a store; None for any other lookup."""
        if self._access is None and isinstance(lookup, Store):
            self._access = AccessRules(lookup)
        return self._access

    def check(
        self, lookup: Lookup, resource: Resource, old: Json | None, new: Json, by: WriteContext
    ) -> None:
        """Raises `ApiError` 403."""
        if resource not in _ROLES or MASTERS in by.user.groups:
            return
        access = self.access(lookup)
        if access is None:
            return
        user = User(by.user.name, by.user.groups)
        name = "" if old is None else old["metadata"]["name"]
        check_escalation(access, user, resource, new, old, name)
