"""Controllers of projects next to Kubernetes: JobSet, LeaderWorkerSet. `stowplan up --with` turns them on."""

from collections.abc import Collection

from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.sets.exclusiveplacement import ExclusivePlacementController
from stowplan.localcluster.controllers.sets.jobset import JobSetController
from stowplan.localcluster.controllers.sets.leaderworkergroups import LeaderWorkerGroupController
from stowplan.localcluster.controllers.sets.leaderworkerset import LeaderWorkerSetController
from stowplan.localcluster.objects.addons import AddOn


def add_on_controllers(
    context: ControllerContext, add_ons: Collection[AddOn], *, gangs: bool
) -> list[Controller]:
    """The control loops of some projects. `gangs`: PodGroups are served."""
    found: list[Controller] = []
    if AddOn.JOBSET in add_ons:
        found += [JobSetController(context), ExclusivePlacementController(context)]
    if AddOn.LWS in add_ons:
        found += [
            LeaderWorkerSetController(context, gangs=gangs),
            LeaderWorkerGroupController(context, gangs=gangs),
        ]
    return found
