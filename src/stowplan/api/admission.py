"""Limits, quotas and runtime classes: admission reads them when it fills in or refuses new objects."""

from collections.abc import Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Namespace, Object, Struct
from stowplan.api.pod import ResourceList, Toleration
from stowplan.api.storage import StorageClass
from stowplan.api.workloads import PriorityClass


class LimitRangeItem(Struct, frozen=True):
    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Struct, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object, frozen=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class ScopeRequirement(Struct, frozen=True):
    """A scope of a quota: `PriorityClass In [high]`."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Object, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class Overhead(Struct, frozen=True):
    pod_fixed: ResourceList = {}


class RuntimeClassScheduling(Struct, frozen=True):
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object, frozen=True):
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: RuntimeClassScheduling | None = None


READ: Final[Mapping[type[Object], Resource]] = {
    Namespace: catalogue.NAMESPACES,
    PriorityClass: catalogue.PRIORITY_CLASSES,
    LimitRange: catalogue.LIMIT_RANGES,
    RuntimeClass: catalogue.RUNTIME_CLASSES,
    StorageClass: catalogue.STORAGE_CLASSES,
}
"""Kinds that admission reads to complete or refuse a new object, besides ResourceQuotas."""
