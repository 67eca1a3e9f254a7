"""Whether objects are as they have to be. Everything wrong with an object is told at once."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue, status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation import objects, pods, roles, updates, volumes, workloads
from stowplan.embedded.admission.validation.metadata import metadata_errors

_CREATED: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PODS: pods.pod_errors,
    catalogue.NODES: objects.node_errors,
    catalogue.SERVICES: objects.service_errors,
    catalogue.CONFIG_MAPS: objects.config_errors,
    catalogue.SECRETS: objects.config_errors,
    catalogue.PRIORITY_CLASSES: objects.priority_class_errors,
    catalogue.POD_DISRUPTION_BUDGETS: objects.budget_errors,
    catalogue.LEASES: objects.lease_errors,
    catalogue.PERSISTENT_VOLUMES: volumes.volume_errors,
    catalogue.PERSISTENT_VOLUME_CLAIMS: volumes.claim_errors,
    catalogue.STORAGE_CLASSES: volumes.storage_class_errors,
    catalogue.DEPLOYMENTS: workloads.replicated_errors,
    catalogue.REPLICA_SETS: workloads.replicated_errors,
    catalogue.STATEFUL_SETS: workloads.replicated_errors,
    catalogue.DAEMON_SETS: workloads.replicated_errors,
    catalogue.REPLICATION_CONTROLLERS: workloads.replication_controller_errors,
    catalogue.JOBS: workloads.job_errors,
    catalogue.CRON_JOBS: workloads.cron_job_errors,
    catalogue.ROLES: roles.role_errors,
    catalogue.ROLE_BINDINGS: roles.role_binding_errors,
    catalogue.CLUSTER_ROLES: roles.cluster_role_errors,
    catalogue.CLUSTER_ROLE_BINDINGS: roles.cluster_role_binding_errors,
}
_REPLACED: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PODS: updates.pod_changes,
    catalogue.DEPLOYMENTS: updates.selector_changes,
    catalogue.REPLICA_SETS: updates.selector_changes,
    catalogue.DAEMON_SETS: updates.selector_changes,
    catalogue.STATEFUL_SETS: updates.stateful_set_changes,
    catalogue.JOBS: updates.job_changes,
    catalogue.SERVICES: updates.service_changes,
    catalogue.PERSISTENT_VOLUME_CLAIMS: updates.claim_changes,
    catalogue.STORAGE_CLASSES: updates.storage_class_changes,
    catalogue.PRIORITY_CLASSES: updates.priority_class_changes,
    catalogue.CONFIG_MAPS: updates.config_changes,
    catalogue.SECRETS: updates.config_changes,
    catalogue.ROLE_BINDINGS: roles.binding_changes,
    catalogue.CLUSTER_ROLE_BINDINGS: roles.binding_changes,
}


def check_created(resource: Resource, obj: Json) -> None:
    """Raises `ApiError` 422 if a new object is not as it has to be."""
    _check(resource, obj, metadata_errors(resource, obj["metadata"]))


def check_replaced(resource: Resource, old: Json, new: Json) -> None:
    """Raises `ApiError` 422 if an object is not as it has to be, or what must not change has changed."""
    find = _REPLACED.get(resource)
    changed = [] if find is None else find(old, new)
    _check(resource, new, [*metadata_errors(resource, new["metadata"]), *changed])


def _check(resource: Resource, obj: Json, errors: list[FieldError]) -> None:
    find = _CREATED.get(resource)
    if find is not None:
        errors += find(obj)
    if errors:
        raise status.invalid(resource, obj["metadata"].get("name", ""), errors)
