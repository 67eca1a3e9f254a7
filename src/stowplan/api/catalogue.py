"""The kinds an API server serves: where they are found and how they behave when written.

One table for everybody: clients build their paths from it, the store takes its rules from it, and kinds of
others (custom resources) are added with `Catalogue.register`.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec

OBJECT_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Resource(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """One kind of object.

    `status`: it has a status subresource, so the main resource cannot change the status and vice versa.
    `generation`: changes of the spec are counted. `blind_update`: an update need not say which version it
    replaces. `create_on_update`: an update of what does not exist creates it. `fields`: what field
    selectors may name besides the object's own name and namespace. `lifetime`: seconds after which the
    server forgets an object by itself. `short_names`, `categories` and `singular` (the kind in lower case if
    empty) are other names clients may use; `verbs` is what may be done with it. `storage_version`: the
    `apiVersion` its objects are stored in, if that is another one. `deprecation`: what everybody is warned
    of who uses it. `returns_deleted`: the answer to its deletion is the object, not just a Status. `custom`:
    its objects have no type that is known beforehand; `defined`: a CustomResourceDefinition says what they
    are; `scaled`: it says how they are scaled; `keeps_versions`: a webhook converts them, so each is stored
    as its writer wrote it unless that webhook is called.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    generation: bool = False
    blind_update: bool = True
    create_on_update: bool = False
    custom: bool = False
    defined: bool = False
    scaled: bool = False
    lifetime: float | None = None
    fields: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    verbs: tuple[str, ...] = OBJECT_VERBS
    storage_version: str = ""
    deprecation: str = ""
    returns_deleted: bool = False
    keeps_versions: bool = False

    @cached_property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name in messages: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """Where its group and version are served: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def dotted(self) -> str:
        """`plural.version.group`, the name plugins register for."""
        return f"{self.plural}.{self.version}.{self.group}"


_POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_EVENT_FIELDS: Final = (
    *(f"involvedObject.{part}" for part in _REFERENCE),
    "reason",
    "reportingComponent",
    "type",
)
_EVENT_FIELDS: Final = (
    *(f"regarding.{part}" for part in _REFERENCE),
    "reason",
    "reportingController",
    "type",
)
EVENT_LIFETIME: Final = 3600.0
RBAC: Final = "rbac.authorization.k8s.io"
FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"
_ALL: Final = ("all",)


def _admission(plural: str, kind: str, *, status: bool = False) -> Resource:
    """A kind of admissionregistration.k8s.io; they differ in little but their names."""
    return Resource(
        "admissionregistration.k8s.io",
        "v1",
        plural,
        kind,
        namespaced=False,
        status=status,
        generation=True,
        blind_update=False,
        categories=("api-extensions",),
    )


# core
PODS: Final = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    status=True,
    generation=True,
    fields=_POD_FIELDS,
    short_names=("po",),
    categories=_ALL,
    returns_deleted=True,
)
NODES: Final = Resource(
    "",
    "v1",
    "nodes",
    "Node",
    namespaced=False,
    status=True,
    fields=("spec.unschedulable",),
    short_names=("no",),
)
NAMESPACES: Final = Resource(
    "",
    "v1",
    "namespaces",
    "Namespace",
    namespaced=False,
    status=True,
    fields=("status.phase",),
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    returns_deleted=True,
)
SERVICES: Final = Resource(
    "",
    "v1",
    "services",
    "Service",
    status=True,
    create_on_update=True,
    fields=("spec.clusterIP", "spec.type"),
    short_names=("svc",),
    categories=_ALL,
    returns_deleted=True,
)
REPLICATION_CONTROLLERS: Final = Resource(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    status=True,
    generation=True,
    fields=("status.replicas",),
    short_names=("rc",),
    categories=_ALL,
)
PERSISTENT_VOLUMES: Final = Resource(
    "",
    "v1",
    "persistentvolumes",
    "PersistentVolume",
    namespaced=False,
    status=True,
    short_names=("pv",),
    returns_deleted=True,
)
PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    "",
    "v1",
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    status=True,
    short_names=("pvc",),
    returns_deleted=True,
)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
SECRETS: Final = Resource("", "v1", "secrets", "Secret", fields=("type",))
SERVICE_ACCOUNTS: Final = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), returns_deleted=True
)
ENDPOINTS: Final = Resource(
    "",
    "v1",
    "endpoints",
    "Endpoints",
    create_on_update=True,
    short_names=("ep",),
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
LIMIT_RANGES: Final = Resource(
    "", "v1", "limitranges", "LimitRange", create_on_update=True, short_names=("limits",)
)
RESOURCE_QUOTAS: Final = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", status=True, short_names=("quota",), returns_deleted=True
)
POD_TEMPLATES: Final = Resource(
    "", "v1", "podtemplates", "PodTemplate", generation=True, returns_deleted=True
)
CORE_EVENTS: Final = Resource(
    "",
    "v1",
    "events",
    "Event",
    create_on_update=True,
    lifetime=EVENT_LIFETIME,
    fields=_CORE_EVENT_FIELDS,
    short_names=("ev",),
)
COMPONENT_STATUSES: Final = Resource(
    "",
    "v1",
    "componentstatuses",
    "ComponentStatus",
    namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
# events.k8s.io
EVENTS: Final = Resource(
    "events.k8s.io",
    "v1",
    "events",
    "Event",
    create_on_update=True,
    lifetime=EVENT_LIFETIME,
    fields=_EVENT_FIELDS,
    short_names=("ev",),
    storage_version="v1",
)
# apps, batch, autoscaling
DEPLOYMENTS: Final = Resource(
    "apps",
    "v1",
    "deployments",
    "Deployment",
    status=True,
    generation=True,
    short_names=("deploy",),
    categories=_ALL,
)
REPLICA_SETS: Final = Resource(
    "apps",
    "v1",
    "replicasets",
    "ReplicaSet",
    status=True,
    generation=True,
    short_names=("rs",),
    categories=_ALL,
)
STATEFUL_SETS: Final = Resource(
    "apps",
    "v1",
    "statefulsets",
    "StatefulSet",
    status=True,
    generation=True,
    short_names=("sts",),
    categories=_ALL,
)
DAEMON_SETS: Final = Resource(
    "apps",
    "v1",
    "daemonsets",
    "DaemonSet",
    status=True,
    generation=True,
    short_names=("ds",),
    categories=_ALL,
)
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS: Final = Resource(
    "batch",
    "v1",
    "jobs",
    "Job",
    status=True,
    generation=True,
    fields=("status.successful",),
    categories=_ALL,
)
CRON_JOBS: Final = Resource(
    "batch",
    "v1",
    "cronjobs",
    "CronJob",
    status=True,
    generation=True,
    short_names=("cj",),
    categories=_ALL,
)
HORIZONTAL_POD_AUTOSCALERS: Final = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    status=True,
    short_names=("hpa",),
    categories=_ALL,
)
HORIZONTAL_POD_AUTOSCALERS_V1: Final = Resource(
    "autoscaling",
    "v1",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    status=True,
    short_names=("hpa",),
    categories=_ALL,
    storage_version="autoscaling/v2",
)
# storage.k8s.io, storagemigration.k8s.io
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io",
    "v1",
    "storageclasses",
    "StorageClass",
    namespaced=False,
    short_names=("sc",),
    returns_deleted=True,
)
CSI_NODES: Final = Resource(
    "storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False, blind_update=False, returns_deleted=True
)
CSI_DRIVERS: Final = Resource(
    "storage.k8s.io",
    "v1",
    "csidrivers",
    "CSIDriver",
    namespaced=False,
    blind_update=False,
    returns_deleted=True,
    generation=True,
)
CSI_STORAGE_CAPACITIES: Final = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", blind_update=False
)
VOLUME_ATTACHMENTS: Final = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
    namespaced=False,
    status=True,
    blind_update=False,
    returns_deleted=True,
)
VOLUME_ATTRIBUTES_CLASSES: Final = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattributesclasses",
    "VolumeAttributesClass",
    namespaced=False,
    short_names=("vac",),
    returns_deleted=True,
)
STORAGE_VERSION_MIGRATIONS: Final = Resource(
    "storagemigration.k8s.io",
    "v1",
    "storageversionmigrations",
    "StorageVersionMigration",
    namespaced=False,
    status=True,
    blind_update=False,
)
# policy, scheduling.k8s.io, coordination.k8s.io, discovery.k8s.io, node.k8s.io
POD_DISRUPTION_BUDGETS: Final = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    status=True,
    generation=True,
    blind_update=False,
    short_names=("pdb",),
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    namespaced=False,
    generation=True,
    short_names=("pc",),
)
POD_GROUPS: Final = Resource(
    "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", status=True, blind_update=False
)
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", blind_update=False)
COMPOSITE_POD_GROUPS: Final = Resource(
    "scheduling.k8s.io",
    "v1alpha3",
    "compositepodgroups",
    "CompositePodGroup",
    status=True,
    blind_update=False,
)
POD_GROUPS_V1ALPHA3: Final = msgspec.structs.replace(
    POD_GROUPS, version="v1alpha3", storage_version=POD_GROUPS.api_version
)
WORKLOADS_V1ALPHA3: Final = msgspec.structs.replace(
    WORKLOADS, version="v1alpha3", storage_version=WORKLOADS.api_version
)
LEASES: Final = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", blind_update=False, create_on_update=True
)
LEASE_CANDIDATES: Final = Resource(
    "coordination.k8s.io",
    "v1beta1",
    "leasecandidates",
    "LeaseCandidate",
    blind_update=False,
    create_on_update=True,
)
ENDPOINT_SLICES: Final = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True
)
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io",
    "v1",
    "runtimeclasses",
    "RuntimeClass",
    namespaced=False,
    blind_update=False,
    create_on_update=True,
)
# networking.k8s.io
INGRESSES: Final = Resource(
    "networking.k8s.io", "v1", "ingresses", "Ingress", status=True, generation=True, short_names=("ing",)
)
INGRESS_CLASSES: Final = Resource(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False, generation=True
)
NETWORK_POLICIES: Final = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", generation=True, short_names=("netpol",)
)
IP_ADDRESSES: Final = Resource(
    "networking.k8s.io", "v1", "ipaddresses", "IPAddress", namespaced=False, short_names=("ip",)
)
SERVICE_CIDRS: Final = Resource(
    "networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False, status=True
)
# rbac.authorization.k8s.io, certificates.k8s.io
ROLES: Final = Resource(RBAC, "v1", "roles", "Role", create_on_update=True)
ROLE_BINDINGS: Final = Resource(RBAC, "v1", "rolebindings", "RoleBinding", create_on_update=True)
CLUSTER_ROLES: Final = Resource(
    RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False, create_on_update=True
)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False, create_on_update=True
)
CERTIFICATE_SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
    status=True,
    fields=("spec.signerName",),
    short_names=("csr",),
)
# resource.k8s.io
RESOURCE_CLAIMS: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", status=True, returns_deleted=True
)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True
)
RESOURCE_SLICES: Final = Resource(
    "resource.k8s.io",
    "v1",
    "resourceslices",
    "ResourceSlice",
    namespaced=False,
    generation=True,
    fields=("spec.nodeName", "spec.driver", "spec.pool.name"),
    returns_deleted=True,
)
DEVICE_CLASSES: Final = Resource(
    "resource.k8s.io",
    "v1",
    "deviceclasses",
    "DeviceClass",
    namespaced=False,
    generation=True,
    returns_deleted=True,
)
DEVICE_TAINT_RULES: Final = Resource(
    "resource.k8s.io",
    "v1",
    "devicetaintrules",
    "DeviceTaintRule",
    namespaced=False,
    status=True,
    generation=True,
    blind_update=False,
)


def _older(resource: Resource, version: str, deprecated: str = "") -> Resource:
    """A kind of resource.k8s.io in a version before v1; `deprecated` is since when and until when."""
    since, _, until = deprecated.partition("-")
    which = f"{resource.group}/{version} {resource.kind}"
    told = f"{which} is deprecated in v{since}+, unavailable in v{until}+" if deprecated else ""
    return msgspec.structs.replace(
        resource,
        version=version,
        storage_version=resource.api_version,
        blind_update=True,
        returns_deleted=True,
        deprecation=told,
    )


RESOURCE_CLAIMS_V1BETA2: Final = _older(RESOURCE_CLAIMS, "v1beta2", "1.36-1.39")
RESOURCE_CLAIM_TEMPLATES_V1BETA2: Final = _older(RESOURCE_CLAIM_TEMPLATES, "v1beta2", "1.36-1.39")
RESOURCE_SLICES_V1BETA2: Final = _older(RESOURCE_SLICES, "v1beta2", "1.36-1.39")
DEVICE_CLASSES_V1BETA2: Final = _older(DEVICE_CLASSES, "v1beta2", "1.36-1.39")
DEVICE_TAINT_RULES_V1BETA2: Final = _older(DEVICE_TAINT_RULES, "v1beta2")
RESOURCE_CLAIMS_V1BETA1: Final = _older(RESOURCE_CLAIMS, "v1beta1", "1.35-1.38")
RESOURCE_CLAIM_TEMPLATES_V1BETA1: Final = _older(RESOURCE_CLAIM_TEMPLATES, "v1beta1", "1.35-1.38")
RESOURCE_SLICES_V1BETA1: Final = _older(RESOURCE_SLICES, "v1beta1", "1.35-1.38")
DEVICE_CLASSES_V1BETA1: Final = _older(DEVICE_CLASSES, "v1beta1", "1.35-1.38")
DEVICE_TAINT_RULES_V1ALPHA3: Final = _older(DEVICE_TAINT_RULES, "v1alpha3", "1.36-1.39")
# admissionregistration.k8s.io
MUTATING_WEBHOOK_CONFIGURATIONS: Final = _admission(
    "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = _admission(
    "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_ADMISSION_POLICIES: Final = _admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
MUTATING_ADMISSION_POLICY_BINDINGS: Final = _admission(
    "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"
)
VALIDATING_ADMISSION_POLICIES: Final = _admission(
    "validatingadmissionpolicies", "ValidatingAdmissionPolicy", status=True
)
VALIDATING_ADMISSION_POLICY_BINDINGS: Final = _admission(
    "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
)
# apiextensions.k8s.io, apiregistration.k8s.io
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    status=True,
    generation=True,
    blind_update=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    returns_deleted=True,
)
API_SERVICES: Final = Resource(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    namespaced=False,
    status=True,
    blind_update=False,
    categories=("api-extensions",),
)
# flowcontrol.apiserver.k8s.io
FLOW_SCHEMAS: Final = Resource(
    FLOW_CONTROL, "v1", "flowschemas", "FlowSchema", namespaced=False, status=True, generation=True
)
PRIORITY_LEVEL_CONFIGURATIONS: Final = Resource(
    FLOW_CONTROL,
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
    status=True,
    generation=True,
)

BUILT_IN: Final = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
"""Every resource above, in that order."""


def in_version(resource: Resource, api_version: str) -> Resource:
    """A resource as another version of its API serves it; as it is for "", or if that version is unknown."""
    found = (one for one in BUILT_IN if one.plural == resource.plural and one.api_version == api_version)
    return next(found, resource)


SCALES: Final = Resource("autoscaling", "v1", "scales", "Scale")
"""The kind of the subresource `scale`, which has no stored objects."""


class Catalogue:
    """The resources one server knows, found by any of their names."""

    def __init__(self, resources: Iterable[Resource] = BUILT_IN) -> None:
        self._by_name: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self.revision = 0
        """Counts changes, for those who remember what they found."""
        for resource in resources:
            self.register(resource)

    def register(self, resource: Resource) -> Resource:
        """Add a resource. One that is registered already, unchanged, may be registered again."""
        known = self._by_name.get(resource.dotted) or self._by_kind.get((resource.api_version, resource.kind))
        if known is not None and known != resource:
            raise ValueError(
                f"resource {resource.dotted} (kind {resource.kind}): "
                f"{known.dotted} (kind {known.kind}) is registered already"
            )
        self._by_name[resource.dotted] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        self.revision += 1
        return resource

    def remove(self, resource: Resource) -> None:
        """Take a resource out again. One that is not here, or is another one by now, is left alone."""
        if self._by_name.get(resource.dotted) == resource:
            del self._by_name[resource.dotted]
            del self._by_kind[resource.api_version, resource.kind]
            self.revision += 1

    def named(self, dotted: str) -> Resource | None:
        """The resource called `plural.version.group` (the core group's name is empty)."""
        return self._by_name.get(dotted)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource whose objects say this `apiVersion` and `kind`."""
        return self._by_kind.get((api_version, kind))

    def __contains__(self, resource: Resource) -> bool:
        return self._by_name.get(resource.dotted) == resource

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_name.values())
