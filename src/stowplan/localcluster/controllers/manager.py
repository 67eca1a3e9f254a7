"""The controller manager: all controllers together, as `stowplan controllers` and `stowplan up` run them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from stowplan.client import Client
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    ControllerManager,
)
from stowplan.localcluster.controllers.autoscaling.podautoscaler import HorizontalPodAutoscalerController
from stowplan.localcluster.controllers.certificates import CertificateSigningController, SignCertificate
from stowplan.localcluster.controllers.clusterroleaggregation import ClusterRoleAggregationController
from stowplan.localcluster.controllers.devices.coscheduling import CoschedulingController
from stowplan.localcluster.controllers.devices.devicetainteviction import DeviceTaintEvictionController
from stowplan.localcluster.controllers.devices.podgroupprotection import PodGroupProtectionController
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.controllers.garbagecollector import WATCHED, GarbageCollector
from stowplan.localcluster.controllers.leaderelection import LeaderElectionController
from stowplan.localcluster.controllers.namespace import NamespaceController
from stowplan.localcluster.controllers.nodes.nodelifecycle import LifecycleSettings, NodeLifecycleController
from stowplan.localcluster.controllers.nodes.podgc import PodGCController
from stowplan.localcluster.controllers.nodes.tainteviction import TaintEvictionController
from stowplan.localcluster.controllers.resourcequota import ResourceQuotaController
from stowplan.localcluster.controllers.serviceaccount import (
    AccountSettings,
    RootCAPublisher,
    ServiceAccountController,
    TokensController,
)
from stowplan.localcluster.controllers.services.endpoints import (
    EndpointsController,
    EndpointSliceMirroringController,
)
from stowplan.localcluster.controllers.services.endpointslice import EndpointSliceController
from stowplan.localcluster.controllers.services.gateways import GatewayController, IngressController
from stowplan.localcluster.controllers.services.loadbalancers import (
    AddressPool,
    AddressRange,
    ServiceController,
)
from stowplan.localcluster.controllers.services.servicepods import ServicePods
from stowplan.localcluster.controllers.sets import add_on_controllers
from stowplan.localcluster.controllers.storage.ephemeralvolume import EphemeralVolumeController
from stowplan.localcluster.controllers.storage.persistentvolume import (
    ExpandController,
    PersistentVolumeController,
)
from stowplan.localcluster.controllers.storage.provisioner import Provisioner, ProvisionerSettings
from stowplan.localcluster.controllers.storage.volumeprotection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from stowplan.localcluster.controllers.validatingpolicystatus import ValidatingPolicyStatusController
from stowplan.localcluster.controllers.workloads.cronjob import CronJobController
from stowplan.localcluster.controllers.workloads.daemonset import DaemonSetController
from stowplan.localcluster.controllers.workloads.deployment import DeploymentController
from stowplan.localcluster.controllers.workloads.disruption import DisruptionController
from stowplan.localcluster.controllers.workloads.job import JobController
from stowplan.localcluster.controllers.workloads.replicaset import (
    ReplicaSetController,
    ReplicationControllerController,
)
from stowplan.localcluster.controllers.workloads.statefulset import StatefulSetController
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.runtime.clock import Clock


@dataclass(slots=True)
class ControllerSettings:
    """Settings of control loops; `provisioner` may be changed while they run.

    `usage`: the pretended usage of pods; without it autoscalers request metrics from the API server.
    `device_taint_rules`: DeviceTaintRules evict pods, as their gate says. `groups`: the enabled parts of pod
    groups. `coscheduling`: the PodGroups of scheduler-plugins get a status. `load_balancers`: addresses of
    pretended load balancers, None without any. `sign_certificate`: the signer of the cluster's CA. `add_ons`:
    projects beside Kubernetes whose objects are acted on.
    """

    provisioner: ProvisionerSettings = field(default_factory=ProvisionerSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    accounts: AccountSettings = field(default_factory=AccountSettings)
    usage: PretendUsage | None = None
    device_taint_rules: bool = True
    coscheduling: bool = False
    load_balancers: AddressRange | None = None
    sign_certificate: SignCertificate | None = None
    groups: GroupFeatures = field(default_factory=lambda: GroupFeatures(jobs=False))
    add_ons: Collection[AddOn] = ()


def all_controllers(
    context: ControllerContext, settings: ControllerSettings | None = None
) -> list[Controller]:
    """Every control loop there is."""
    settings = ControllerSettings() if settings is None else settings
    served = settings.groups.catalogue()
    watched = [resource for resource in WATCHED if resource in served]
    return [
        *volume_controllers(context, settings.provisioner),
        DeploymentController(context),
        ReplicaSetController(context),
        ReplicationControllerController(context),
        StatefulSetController(context),
        DaemonSetController(context),
        JobController(context, groups=settings.groups.jobs),
        CronJobController(context),
        *service_controllers(context),
        *balancer_controllers(context, settings.load_balancers),
        ResourceClaimController(context, groups=settings.groups.claims),
        DisruptionController(context),
        HorizontalPodAutoscalerController(context, settings.usage),
        NodeLifecycleController(context, settings.lifecycle),
        TaintEvictionController(context),
        DeviceTaintEvictionController(context, rules=settings.device_taint_rules),
        PodGCController(context),
        *([PodGroupProtectionController(context)] if settings.groups.groups else []),
        *([CoschedulingController(context)] if settings.coscheduling else []),
        *add_on_controllers(context, settings.add_ons, gangs=settings.groups.groups),
        LeaderElectionController(context),
        GarbageCollector(context, watched),
        NamespaceController(context, served),
        ResourceQuotaController(context, watched),
        ServiceAccountController(context),
        RootCAPublisher(context, settings.accounts),
        TokensController(context, settings.accounts),
        ClusterRoleAggregationController(context),
        *certificate_controllers(context, settings.sign_certificate),
        ValidatingPolicyStatusController(context),
    ]


def service_controllers(context: ControllerContext) -> list[Controller]:
    """The control loops of what is behind services."""
    members = ServicePods(context)
    return [
        EndpointSliceController(context, members),
        EndpointsController(context, members),
        EndpointSliceMirroringController(context),
    ]


def certificate_controllers(context: ControllerContext, sign: SignCertificate | None) -> list[Controller]:
    """The control loop of certificate requests, where there is a CA."""
    return [] if sign is None else [CertificateSigningController(context, sign)]


def balancer_controllers(context: ControllerContext, addresses: AddressRange | None) -> list[Controller]:
    """The control loops of addresses outside of the cluster."""
    if addresses is None:
        return []
    pool = AddressPool(addresses)
    return [
        ServiceController(context, pool),
        IngressController(context, pool),
        GatewayController(context, pool),
    ]


def volume_controllers(
    context: ControllerContext, settings: ProvisionerSettings | None = None
) -> list[Controller]:
    """The control loops of claims and volumes."""
    return [
        PersistentVolumeController(context),
        Provisioner(context, settings),
        ExpandController(context),
        ClaimProtectionController(context),
        VolumeProtectionController(context),
        EphemeralVolumeController(context),
    ]


def controller_manager(
    client: Client,
    settings: ControllerSettings | None = None,
    *,
    clock: Clock,
    rng: Random,
    report: Callable[[str], None] = lambda text: None,
) -> ControllerManager:
    """All control loops against one API server, ready to `run`."""
    context = ControllerContext.of(client, clock, rng, report)
    return ControllerManager(context, all_controllers(context, settings))
