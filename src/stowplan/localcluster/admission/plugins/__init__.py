"""Admission plugins by resource, in upstream's order.

Mutating plugins fill in what follows from other objects; then the object is validated; then validating
plugins may refuse it. ResourceQuota comes last, because what it charges must not be refused afterwards.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from stowplan.api.catalogue import (
    CERTIFICATE_SIGNING_REQUESTS,
    COMPOSITE_POD_GROUPS,
    INGRESSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.plugins.certificates import restrict_subject
from stowplan.localcluster.admission.plugins.limitranger import (
    check_claim_limits,
    check_claim_update,
    check_pod_limits,
    set_default_resources,
)
from stowplan.localcluster.admission.plugins.networking import default_ingress_class
from stowplan.localcluster.admission.plugins.podgroups import group_priority
from stowplan.localcluster.admission.plugins.priority import keep_priority, resolve_priority
from stowplan.localcluster.admission.plugins.scheduling import (
    apply_runtime_class,
    check_overhead,
    default_toleration_seconds,
    keep_toleration_seconds,
    taint_new_node,
)
from stowplan.localcluster.admission.plugins.serviceaccount import keep_service_account, set_service_account
from stowplan.localcluster.admission.plugins.storage import (
    check_resize,
    default_storage_class,
    in_use_protection,
)
from stowplan.localcluster.objects.groupclaims import GROUP_PROTECTION
from stowplan.localcluster.store.registry import Lookup

OnCreate = Callable[[Lookup, Json], None]
OnUpdate = Callable[[Lookup, Json, Json], None]
Plugin = TypeVar("Plugin")
Plugins = Mapping[Resource, Sequence[tuple[str, Plugin]]]


def _group_plugins(*, with_policy: bool) -> Plugins[OnCreate]:
    return {
        POD_GROUPS: (
            ("Priority", group_priority(POD_GROUPS, with_policy=with_policy)),
            ("PodGroupProtection", in_use_protection(GROUP_PROTECTION)),
        ),
        COMPOSITE_POD_GROUPS: (("Priority", group_priority(COMPOSITE_POD_GROUPS, with_policy=with_policy)),),
    }


MUTATE_CREATED: Final[Plugins[OnCreate]] = {
    PODS: (
        ("LimitRanger", set_default_resources),
        ("ServiceAccount", set_service_account),
        ("Priority", resolve_priority),
        ("DefaultTolerationSeconds", default_toleration_seconds),
        ("RuntimeClass", apply_runtime_class),
    ),
    NODES: (("TaintNodesByCondition", taint_new_node),),
    PERSISTENT_VOLUME_CLAIMS: (
        ("DefaultStorageClass", default_storage_class),
        ("StorageObjectInUseProtection", in_use_protection("kubernetes.io/pvc-protection")),
    ),
    INGRESSES: (("DefaultIngressClass", default_ingress_class),),
    PERSISTENT_VOLUMES: (("StorageObjectInUseProtection", in_use_protection("kubernetes.io/pv-protection")),),
    **_group_plugins(with_policy=True),
}
MUTATE_WITHOUT_POLICY: Final[Plugins[OnCreate]] = {**MUTATE_CREATED, **_group_plugins(with_policy=False)}
"""The same for clusters whose pod groups have no preemption policy."""

MUTATE_UPDATED: Final[Plugins[OnUpdate]] = {
    PODS: (
        ("ServiceAccount", keep_service_account),
        ("Priority", keep_priority),
        ("DefaultTolerationSeconds", keep_toleration_seconds),
    ),
}
CHECK_CREATED: Final[Plugins[OnCreate]] = {
    CERTIFICATE_SIGNING_REQUESTS: (("CertificateSubjectRestriction", restrict_subject),),
    PODS: (("LimitRanger", check_pod_limits), ("RuntimeClass", check_overhead)),
    PERSISTENT_VOLUME_CLAIMS: (("LimitRanger", check_claim_limits),),
}
CHECK_UPDATED: Final[Plugins[OnUpdate]] = {
    PERSISTENT_VOLUME_CLAIMS: (
        ("LimitRanger", check_claim_update),
        ("PersistentVolumeClaimResize", check_resize),
    ),
}
PLUGIN_NAMES: Final = frozenset(
    name
    for plugins in (MUTATE_CREATED, MUTATE_UPDATED, CHECK_CREATED, CHECK_UPDATED)
    for named in plugins.values()
    for name, _ in named
) | {"ResourceQuota", "PodSecurity", "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"}
"""Plugins that can be disabled."""


def enabled(plugins: Plugins[Plugin], disabled: Collection[str]) -> dict[Resource, tuple[Plugin, ...]]:
    """The plugins by resource, without those that are disabled."""
    return {
        resource: tuple(plugin for name, plugin in named if name not in disabled)
        for resource, named in plugins.items()
    }
