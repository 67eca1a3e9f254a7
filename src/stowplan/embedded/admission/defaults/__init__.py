"""What objects say that do not say it: the defaults of every kind, filled in in place."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.admission.defaults import objects, pods, workloads

DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.PODS: pods.fill_in_pod,
    catalogue.POD_TEMPLATES: workloads.fill_in_pod_template,
    catalogue.REPLICATION_CONTROLLERS: workloads.fill_in_replication_controller,
    catalogue.REPLICA_SETS: workloads.fill_in_replica_set,
    catalogue.DEPLOYMENTS: workloads.fill_in_deployment,
    catalogue.STATEFUL_SETS: workloads.fill_in_stateful_set,
    catalogue.DAEMON_SETS: workloads.fill_in_daemon_set,
    catalogue.JOBS: workloads.fill_in_job,
    catalogue.CRON_JOBS: workloads.fill_in_cron_job,
    catalogue.NODES: objects.fill_in_node,
    catalogue.NAMESPACES: objects.fill_in_namespace,
    catalogue.SERVICES: objects.fill_in_service,
    catalogue.ENDPOINTS: objects.fill_in_endpoints,
    catalogue.SECRETS: objects.fill_in_secret,
    catalogue.PERSISTENT_VOLUMES: objects.fill_in_volume,
    catalogue.PERSISTENT_VOLUME_CLAIMS: objects.fill_in_claim,
    catalogue.STORAGE_CLASSES: objects.fill_in_storage_class,
    catalogue.PRIORITY_CLASSES: objects.fill_in_priority_class,
    catalogue.ROLE_BINDINGS: objects.fill_in_role_binding,
    catalogue.CLUSTER_ROLE_BINDINGS: objects.fill_in_role_binding,
    catalogue.RESOURCE_CLAIMS: objects.fill_in_resource_claim,
    catalogue.RESOURCE_CLAIM_TEMPLATES: objects.fill_in_resource_claim_template,
}
