"""The controller manager: all controllers together, as `stowplan controllers` and `stowplan up` run them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from stowplan.client import Client
from stowplan.clock import Clock
from stowplan.embedded.admission.groupfeatures import GroupFeatures
from stowplan.embedded.controllers.clusterroleaggregation import ClusterRoleAggregationController
from stowplan.embedded.controllers.controller import Context, Controller, ControllerManager
from stowplan.embedded.controllers.coscheduling import CoschedulingController
from stowplan.embedded.controllers.cronjob import CronJobController
from stowplan.embedded.controllers.daemonset import DaemonSetController
from stowplan.embedded.controllers.deployment import DeploymentController
from stowplan.embedded.controllers.devicetainteviction import DeviceTaintEvictionController
from stowplan.embedded.controllers.disruption import DisruptionController
from stowplan.embedded.controllers.endpoints import EndpointsController, EndpointSliceMirroringController
from stowplan.embedded.controllers.endpointslice import EndpointSliceController
from stowplan.embedded.controllers.ephemeralvolume import EphemeralVolumeController
from stowplan.embedded.controllers.garbagecollector import WATCHED, GarbageCollector
from stowplan.embedded.controllers.job import JobController
from stowplan.embedded.controllers.leaderelection import LeaderElectionController
from stowplan.embedded.controllers.namespace import NamespaceController
from stowplan.embedded.controllers.nodelifecycle import LifecycleSettings, NodeLifecycleController
from stowplan.embedded.controllers.persistentvolume import ExpandController, PersistentVolumeController
from stowplan.embedded.controllers.podautoscaler import HorizontalPodAutoscalerController
from stowplan.embedded.controllers.podgc import PodGCController
from stowplan.embedded.controllers.podgroupprotection import PodGroupProtectionController
from stowplan.embedded.controllers.provisioner import Provisioner, ProvisionerSettings
from stowplan.embedded.controllers.replicaset import ReplicaSetController, ReplicationControllerController
from stowplan.embedded.controllers.resourceclaim import ResourceClaimController
from stowplan.embedded.controllers.resourcequota import ResourceQuotaController
from stowplan.embedded.controllers.serviceaccount import (
    AccountSettings,
    RootCAPublisher,
    ServiceAccountController,
    TokensController,
)
from stowplan.embedded.controllers.servicepods import ServicePods
from stowplan.embedded.controllers.statefulset import StatefulSetController
from stowplan.embedded.controllers.tainteviction import TaintEvictionController
from stowplan.embedded.controllers.volumeprotection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from stowplan.embedded.usage import PretendUsage


@dataclass(slots=True)
class ControllerSettings:
    """What can be set about control loops; `provisioner` may be changed while they run.

    `usage`: what pods pretend to use; without it autoscalers ask the API server for metrics.
    `device_taint_rules`: whether DeviceTaintRules evict pods, which their gate says. `groups`: which parts of
    pod groups there are. `coscheduling`: the PodGroups of scheduler-plugins get a status.
    """

    provisioner: ProvisionerSettings = field(default_factory=ProvisionerSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    accounts: AccountSettings = field(default_factory=AccountSettings)
    usage: PretendUsage | None = None
    device_taint_rules: bool = True
    coscheduling: bool = False
    groups: GroupFeatures = field(default_factory=lambda: GroupFeatures(jobs=False))


def all_controllers(context: Context, settings: ControllerSettings | None = None) -> list[Controller]:
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
        ResourceClaimController(context, groups=settings.groups.claims),
        DisruptionController(context),
        HorizontalPodAutoscalerController(context, settings.usage),
        NodeLifecycleController(context, settings.lifecycle),
        TaintEvictionController(context),
        DeviceTaintEvictionController(context, rules=settings.device_taint_rules),
        PodGCController(context),
        *([PodGroupProtectionController(context)] if settings.groups.groups else []),
        *([CoschedulingController(context)] if settings.coscheduling else []),
        LeaderElectionController(context),
        GarbageCollector(context, watched),
        NamespaceController(context, served),
        ResourceQuotaController(context, watched),
        ServiceAccountController(context),
        RootCAPublisher(context, settings.accounts),
        TokensController(context, settings.accounts),
        ClusterRoleAggregationController(context),
    ]


def service_controllers(context: Context) -> list[Controller]:
    """The control loops of what is behind services."""
    members = ServicePods(context)
    return [
        EndpointSliceController(context, members),
        EndpointsController(context, members),
        EndpointSliceMirroringController(context),
    ]


def volume_controllers(context: Context, settings: ProvisionerSettings | None = None) -> list[Controller]:
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
    context = Context.of(client, clock, rng, report)
    return ControllerManager(context, all_controllers(context, settings))
