"""All control loops together, as `stowplan controllers` and `stowplan up` run them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from stowplan.client import Client
from stowplan.clock import Clock
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.daemonsets import DaemonSets
from stowplan.embedded.controllers.deployments import Deployments
from stowplan.embedded.controllers.disruption import Disruption
from stowplan.embedded.controllers.ephemeral import EphemeralVolumes
from stowplan.embedded.controllers.garbage import GarbageCollector
from stowplan.embedded.controllers.jobs import Jobs
from stowplan.embedded.controllers.namespaces import Namespaces, ServiceAccounts
from stowplan.embedded.controllers.nodelifecycle import LifecycleSettings, NodeLifecycle
from stowplan.embedded.controllers.podgc import PodGC
from stowplan.embedded.controllers.protection import ClaimProtection, VolumeProtection
from stowplan.embedded.controllers.provisioner import Provisioner, ProvisionerSettings
from stowplan.embedded.controllers.replicasets import ReplicaSets
from stowplan.embedded.controllers.running import Crew
from stowplan.embedded.controllers.statefulsets import StatefulSets
from stowplan.embedded.controllers.tainteviction import TaintEviction
from stowplan.embedded.controllers.volumes import Volumes


@dataclass(slots=True)
class ControllerSettings:
    """What can be set about control loops; `provisioner` may be changed while they run."""

    provisioner: ProvisionerSettings = field(default_factory=ProvisionerSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)


def all_controllers(context: Context, settings: ControllerSettings | None = None) -> list[Controller]:
    """Every control loop there is."""
    settings = ControllerSettings() if settings is None else settings
    return [
        *volume_controllers(context, settings.provisioner),
        Deployments(context),
        ReplicaSets(context),
        StatefulSets(context),
        DaemonSets(context),
        Jobs(context),
        Disruption(context),
        NodeLifecycle(context, settings.lifecycle),
        TaintEviction(context),
        PodGC(context),
        GarbageCollector(context),
        Namespaces(context),
        ServiceAccounts(context),
    ]


def volume_controllers(context: Context, settings: ProvisionerSettings | None = None) -> list[Controller]:
    """The control loops of claims and volumes."""
    return [
        Volumes(context),
        Provisioner(context, settings),
        ClaimProtection(context),
        VolumeProtection(context),
        EphemeralVolumes(context),
    ]


def crew(
    client: Client,
    settings: ControllerSettings | None = None,
    *,
    clock: Clock,
    rng: Random,
    report: Callable[[str], None] = lambda text: None,
) -> Crew:
    """All control loops against one API server, ready to `run`."""
    context = Context.of(client, clock, rng, report)
    return Crew(context, all_controllers(context, settings))
