"""Defaults by API group: what an object gets that its writer left out, set in place."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.defaults import (
    autoscaling,
    controlplane,
    core,
    devices,
    networking,
    rbac,
    scheduling,
    storage,
    workloads,
)
from stowplan.localcluster.customresources.definitions import set_definition_defaults

_GROUPS: Final = (
    core,
    workloads,
    autoscaling,
    storage,
    scheduling,
    networking,
    rbac,
    devices,
    controlplane,
)
DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    **{resource: rules for group in _GROUPS for resource, rules in group.DEFAULTS.items()},
    CUSTOM_RESOURCE_DEFINITIONS: set_definition_defaults,
}
DATED: Final = devices.DATED
"""Those that are the time of the request."""
