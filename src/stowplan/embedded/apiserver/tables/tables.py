"""The table of each kind, or a plain one with name and age."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.clock import Clock
from stowplan.embedded.apiserver.tables import nodes, others, pods, roles, workloads
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, Table

_PLAIN: Final = (NAME, AGE)
_COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.PODS: pods.PODS,
    catalogue.NODES: nodes.NODES,
    catalogue.NAMESPACES: others.NAMESPACES,
    catalogue.SERVICES: others.SERVICES,
    catalogue.CORE_EVENTS: others.EVENTS,
    catalogue.EVENTS: others.EVENTS,
    catalogue.DEPLOYMENTS: workloads.DEPLOYMENTS,
    catalogue.REPLICA_SETS: workloads.REPLICA_SETS,
    catalogue.REPLICATION_CONTROLLERS: workloads.REPLICA_SETS,
    catalogue.STATEFUL_SETS: workloads.STATEFUL_SETS,
    catalogue.DAEMON_SETS: workloads.DAEMON_SETS,
    catalogue.JOBS: workloads.JOBS,
    catalogue.CRON_JOBS: workloads.CRON_JOBS,
    catalogue.PERSISTENT_VOLUMES: others.VOLUMES,
    catalogue.PERSISTENT_VOLUME_CLAIMS: others.CLAIMS,
    catalogue.STORAGE_CLASSES: others.STORAGE_CLASSES,
    catalogue.POD_DISRUPTION_BUDGETS: others.BUDGETS,
    catalogue.PRIORITY_CLASSES: others.PRIORITY_CLASSES,
    catalogue.LEASES: others.LEASES,
    catalogue.CONFIG_MAPS: others.CONFIG_MAPS,
    catalogue.SECRETS: others.SECRETS,
    catalogue.SERVICE_ACCOUNTS: others.SERVICE_ACCOUNTS,
    catalogue.ROLES: roles.ROLES,
    catalogue.ROLE_BINDINGS: roles.BINDINGS,
    catalogue.CLUSTER_ROLES: roles.ROLES,
    catalogue.CLUSTER_ROLE_BINDINGS: roles.BINDINGS,
    catalogue.RESOURCE_CLAIMS: others.RESOURCE_CLAIMS,
    catalogue.RESOURCE_SLICES: others.RESOURCE_SLICES,
    catalogue.CSI_NODES: others.CSI_NODES,
    catalogue.CSI_DRIVERS: others.CSI_DRIVERS,
    catalogue.VOLUME_ATTACHMENTS: others.ATTACHMENTS,
    catalogue.ENDPOINT_SLICES: others.ENDPOINT_SLICES,
}


class Tables:
    """Finds the table of a resource."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[Resource, Table] = {}

    def of(self, resource: Resource) -> Table:
        table = self._made.get(resource)
        if table is None:
            table = self._made[resource] = Table(_COLUMNS.get(resource, _PLAIN), self._clock)
        return table
