"""Controllers of each kind in `stowplan up`, and the kinds without one.

Objects of the latter are stored, validated and served like all others. Their writers get a warning, so that
they do not wait for an effect.
"""

from collections.abc import Mapping
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource

_DATA: Final = "data for pods and clients"
_SCHEDULER: Final = "scheduler"
_INGRESS: Final = "pretend-ingress-controller, for classes of pretend.stowplan.io/ingress-controller"
_WEBHOOKS: Final = "[its webhooks are called](webhooks.md)"
_GROUPS: Final = "scheduler, job controller, pod group protection controller"
_DEVICES: Final = {
    "resourceclaims": "resource claim controller, scheduler, kubelets",
    "resourceclaimtemplates": "resource claim controller",
    "resourceslices": "scheduler, device taint eviction controller",
    "deviceclasses": _SCHEDULER,
    "devicetaintrules": "scheduler, device taint eviction controller",
}
"""The kinds of resource.k8s.io, in all versions."""
ACTORS: Final[Mapping[Resource, str]] = {
    catalogue.PODS: "scheduler, kubelets",
    catalogue.NODES: "scheduler, kubelets, node lifecycle controller",
    catalogue.NAMESPACES: "namespace controller, Pod Security admission",
    catalogue.SERVICES: "endpoint controllers, service controller",
    catalogue.REPLICATION_CONTROLLERS: "replication controller",
    catalogue.PERSISTENT_VOLUMES: "persistent volume controller, scheduler",
    catalogue.PERSISTENT_VOLUME_CLAIMS: "persistent volume controller, provisioner, scheduler",
    catalogue.CONFIG_MAPS: _DATA,
    catalogue.SECRETS: _DATA,
    catalogue.SERVICE_ACCOUNTS: "authentication, admission",
    catalogue.ENDPOINTS: _DATA,
    catalogue.LIMIT_RANGES: "admission",
    catalogue.RESOURCE_QUOTAS: "admission, quota controller",
    catalogue.POD_TEMPLATES: _DATA,
    catalogue.CORE_EVENTS: _DATA,
    catalogue.COMPONENT_STATUSES: _DATA,
    catalogue.EVENTS: _DATA,
    catalogue.DEPLOYMENTS: "deployment controller",
    catalogue.REPLICA_SETS: "replica set controller",
    catalogue.STATEFUL_SETS: "stateful set controller",
    catalogue.DAEMON_SETS: "daemon set controller",
    catalogue.CONTROLLER_REVISIONS: "stateful set and daemon set controllers",
    catalogue.JOBS: "job controller",
    catalogue.CRON_JOBS: "cron job controller",
    catalogue.HORIZONTAL_POD_AUTOSCALERS: "horizontal pod autoscaler",
    catalogue.HORIZONTAL_POD_AUTOSCALERS_V1: "horizontal pod autoscaler",
    catalogue.STORAGE_CLASSES: "persistent volume controller, provisioner, scheduler",
    catalogue.CSI_NODES: _SCHEDULER,
    catalogue.CSI_DRIVERS: _SCHEDULER,
    catalogue.CSI_STORAGE_CAPACITIES: _SCHEDULER,
    catalogue.VOLUME_ATTACHMENTS: _SCHEDULER,
    catalogue.POD_DISRUPTION_BUDGETS: "disruption controller, evictions, scheduler",
    catalogue.PRIORITY_CLASSES: "admission",
    catalogue.POD_GROUPS: _GROUPS,
    catalogue.POD_GROUPS_V1ALPHA3: _GROUPS,
    catalogue.COMPOSITE_POD_GROUPS: _SCHEDULER,
    catalogue.WORKLOADS: "job controller",
    catalogue.WORKLOADS_V1ALPHA3: "job controller",
    catalogue.RUNTIME_CLASSES: "admission",
    catalogue.LEASES: _DATA,
    catalogue.CERTIFICATE_SIGNING_REQUESTS: "certificate signing controller",
    catalogue.LEASE_CANDIDATES: "leader election controller",
    catalogue.ENDPOINT_SLICES: _DATA,
    catalogue.INGRESSES: _INGRESS,
    catalogue.INGRESS_CLASSES: f"admission, {_INGRESS}",
    catalogue.ROLES: "authorization",
    catalogue.ROLE_BINDINGS: "authorization",
    catalogue.CLUSTER_ROLES: "authorization",
    catalogue.CLUSTER_ROLE_BINDINGS: "authorization",
    **{resource: _DEVICES[resource.plural] for resource in catalogue.BUILT_IN if resource.plural in _DEVICES},
    catalogue.CUSTOM_RESOURCE_DEFINITIONS: "the API server",
    catalogue.API_SERVICES: "the API server",
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS: _WEBHOOKS,
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS: _WEBHOOKS,
    catalogue.MUTATING_ADMISSION_POLICIES: "admission",
    catalogue.MUTATING_ADMISSION_POLICY_BINDINGS: "admission",
    catalogue.VALIDATING_ADMISSION_POLICIES: "admission, policy status controller",
    catalogue.VALIDATING_ADMISSION_POLICY_BINDINGS: "admission",
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS: "admission",
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS: "admission",
}
STORED_ONLY: Final = frozenset(
    (
        catalogue.VOLUME_ATTRIBUTES_CLASSES,
        catalogue.STORAGE_VERSION_MIGRATIONS,
        catalogue.NETWORK_POLICIES,
        catalogue.IP_ADDRESSES,
        catalogue.SERVICE_CIDRS,
        catalogue.FLOW_SCHEMAS,
        catalogue.PRIORITY_LEVEL_CONFIGURATIONS,
    )
)
RULES_OF_TAINTS: Final = frozenset(one for one in catalogue.BUILT_IN if one.plural == "devicetaintrules")
"""DeviceTaintRules in all versions: nothing acts on them without their gate."""
