"""The admission chain, in kube-apiserver's order.

mutating phase     plugins, then stages (policies, webhooks); both again if a stage asks for it
the kind's rules   strategy, validation
validating phase   plugins, then stages (Pod Security, policies, webhooks)
quota              charged last: what it charges must not be refused afterwards
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
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
    SCALES,
    SERVICES,
    Resource,
)
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.requests import Json
from stowplan.localcluster.admission import adminaccess
from stowplan.localcluster.admission.attributes import (
    CREATE,
    DELETE,
    UPDATE,
    AdmissionAttributes,
    AdmissionStage,
)
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
    OnCreate,
    OnUpdate,
    enabled,
)
from stowplan.localcluster.admission.plugins.resourcequota import charge_quotas
from stowplan.localcluster.admission.podsecurity import PodSecurity
from stowplan.localcluster.admission.policies import POLICY_KINDS, AdmissionPolicies
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
from stowplan.localcluster.objects.scales import scale_of
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.attempts import UnansweredError
from stowplan.localcluster.store.registry import APPROVAL, POD_PARTS, Lookup, prepared_update
from stowplan.localcluster.store.writer import WriteContext

_PROTECTED_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_ROLES: Final = frozenset((CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES))
_POD_SECURITY: Final = "PodSecurity"
_KUBELETS: Final = "system:kubelet"
_WITHOUT_COST: Final = frozenset(("status", "finalize", APPROVAL, "ephemeralcontainers"))
"""Subresources whose updates are not charged to quotas."""

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
        self.stages: Sequence[AdmissionStage] = ()
        """Admission that objects or options of the cluster configure, in upstream's order."""
        self._pod_security = PodSecurity(gates.release)
        self._disabled = frozenset(disabled)

    def connect(self, store: Store) -> None:
        """Have the policies of a store be applied, before the stages that are there already."""
        own: list[AdmissionStage] = []
        if _POD_SECURITY not in self._disabled:
            self._pod_security.follow(store)
            own.append(self._pod_security)
        kinds = POLICY_KINDS - self._disabled
        if kinds:
            own.append(AdmissionPolicies(store, lambda: self._roles.access(store), kinds))
        others = [one for one in self.stages if not isinstance(one, PodSecurity | AdmissionPolicies)]
        self.stages = (*own, *others)

    def is_extended(self) -> bool:
        """True if some stage is to be called."""
        for stage in self.stages:  # noqa: SIM110 - every write comes by here: `any` takes four times as long
            if stage.is_active:
                return True
        return False

    def set_defaults(self, resource: Resource, obj: Json, stamp: str) -> None:
        """Set defaults that do not depend on other objects; the writer owns these fields too."""
        set_defaults = DEFAULTS.get(resource)
        if set_defaults is not None:
            set_defaults(obj)
        date = DATED.get(resource)
        if date is not None:
            date(obj, stamp)

    def admit_create(
        self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext, *, generated: bool = False
    ) -> Commit | None:
        _check_namespace(lookup, resource, obj)
        plugins: Sequence[OnCreate] = self._mutate_created.get(resource, ())
        if resource == NODES and _is_ready_at_once(obj, by):
            plugins = ()
        for plugin in plugins:
            plugin(lookup, obj)
        write = None
        if self.is_extended():
            default = partial(self._set_all_defaults, lookup, resource)
            write = AdmissionAttributes(
                lookup, CREATE, resource, obj, None, by, default=default, generated=generated
            )
            if self._mutate(write):
                for plugin in plugins:
                    plugin(lookup, obj)
                self._mutate_again(write)
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
        if resource == NAMESPACES and _POD_SECURITY not in self._disabled:
            self._pod_security.check_namespace(lookup, None, obj, by)
        for plugin in self._check_created.get(resource, ()):
            plugin(lookup, obj)
        if write is not None:
            self._validate(write, obj)
        return charge_quotas(lookup, resource, None, obj, "") if self._quotas else None

    def _set_all_defaults(self, lookup: Lookup, resource: Resource, obj: Json) -> None:
        """Set the defaults of an object that a stage has changed, and drop what is not specified."""
        self.set_defaults(resource, obj, lookup.stamp())
        custom = lookup.definitions.version_of(resource) if resource.defined else None
        if custom is not None:
            custom.prepare(obj)

    def _mutate(self, write: AdmissionAttributes) -> bool:
        """Have the stages change an object; true if everything is to be invoked again."""
        changed = [stage.mutate(write) for stage in self.stages if stage.is_active]
        return any(changed)

    def _mutate_again(self, write: AdmissionAttributes) -> None:
        write.is_again = True
        self._mutate(write)

    def _validate(self, write: AdmissionAttributes, obj: Json | None) -> None:
        """Have the stages validate an object as it will be stored, None if it is deleted."""
        write.validate(obj)
        try:
            for stage in self.stages:
                if stage.is_active:
                    stage.validate(write)
        except UnansweredError:
            # The next attempt is to allocate the same address, for the webhook has seen it.
            self._services.rewind()
            raise

    def admit_loaded(self, resource: Resource, obj: Json) -> None:
        """Validation only: plugins did their part where the object comes from."""
        check_loaded(resource, obj, self._devices)

    def admit_update(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> Commit | None:
        plugins: Sequence[OnUpdate] = () if subresource else self._mutate_updated.get(resource, ())
        for plugin in plugins:
            plugin(lookup, old, new)
        write = None
        if self.is_extended():
            write = self._update_of(lookup, resource, old, new, subresource, by)
            if self._mutate(write):
                for plugin in plugins:
                    plugin(lookup, old, new)
                self._mutate_again(write)
            if subresource == "scale":
                new["spec"] = {**new.get("spec", {}), "replicas": _replicas(write)}
        self._check_update(lookup, resource, old, new, subresource, by)
        if write is not None:
            updated = prepared_update(resource, old, new, subresource)
            self._validate(write, scale_of(updated) if subresource == "scale" else updated)
        if not self._quotas or subresource in _WITHOUT_COST:
            return None
        return charge_quotas(lookup, resource, old, new, subresource)

    def _update_of(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> AdmissionAttributes:
        """An update as stages see it: that of a scale is about Scales."""
        if subresource == "scale":
            scales = (scale_of(new), scale_of(old))
            return AdmissionAttributes(
                lookup, UPDATE, resource, *scales, by, subresource=subresource, kind=SCALES, stored=old
            )
        default = None if subresource else partial(self._set_all_defaults, lookup, resource)
        return AdmissionAttributes(
            lookup, UPDATE, resource, new, old, by, subresource=subresource, default=default
        )

    def _check_update(
        self, lookup: Lookup, resource: Resource, old: Json, new: Json, subresource: str, by: WriteContext
    ) -> None:
        """Strategy, validation and validating plugins."""
        custom = lookup.definitions.version_of(resource) if resource.defined else None
        if subresource == "status":
            prepare_status = PREPARE_STATUS.get(resource)
            if prepare_status is not None:
                prepare_status(old, new)
            self._devices.drop_disabled(resource, old, new, status=True)
            check_status(resource, old, new, custom)
            adminaccess.check_granted(lookup, resource, old, new)
            check_status_writer(lambda: self._roles.access(lookup), resource, old, new, by)
            return
        if subresource in ("finalize", APPROVAL):
            return
        if subresource in POD_PARTS:
            self._admit_pod_part(lookup, old, new, subresource)
            return
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
        if resource == NAMESPACES and _POD_SECURITY not in self._disabled:
            self._pod_security.check_namespace(lookup, old, new, by)
        for plugin in self._check_updated.get(resource, ()):
            plugin(lookup, old, new)

    def _admit_pod_part(self, lookup: Lookup, old: Json, new: Json, subresource: str) -> None:
        """Ephemeral containers, and other resources of a pod: nothing else is changed by these."""
        PREPARE_POD_PART[subresource](old, new)
        check_updated(PODS, old, new, subresource)
        if subresource == "resize":
            for plugin in self._check_created.get(PODS, ()):
                plugin(lookup, new)

    def admit_delete(self, lookup: Lookup, resource: Resource, obj: Json, by: WriteContext) -> None:
        name = obj["metadata"]["name"]
        if resource == NAMESPACES and name in _PROTECTED_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if resource == PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")
        if self.is_extended():
            write = AdmissionAttributes(lookup, DELETE, resource, None, obj, by)
            self._mutate(write)
            self._validate(write, None)

    def admit_part(
        self,
        lookup: Lookup,
        operation: str,
        resource: Resource,
        subresource: str,
        kind: Resource,
        obj: Json,
        by: WriteContext,
    ) -> None:
        if self.is_extended():
            write = AdmissionAttributes(
                lookup, operation, resource, obj, None, by, subresource=subresource, kind=kind
            )
            if self._mutate(write):
                self._mutate_again(write)
            self._validate(write, obj)


def _replicas(write: AdmissionAttributes) -> int:
    scale: Json = write.object or {}
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    return replicas


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
