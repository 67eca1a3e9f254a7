"""Admission of the projects that `stowplan up --with` names, in place of their webhooks."""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from typing import Final, NamedTuple

from stowplan.api.catalogue import PODS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.attributes import CREATE, UPDATE, AdmissionAttributes
from stowplan.localcluster.admission.plugins.jobset import (
    check_jobset,
    check_jobset_update,
    check_leader_first,
    default_jobset,
    place_exclusively,
)
from stowplan.localcluster.admission.plugins.leaderworkerset import (
    check_set,
    check_set_update,
    default_set,
    join_group,
)
from stowplan.localcluster.objects import jobsets, leaderworkersets
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.objects.fields import labels_of
from stowplan.localcluster.store.registry import Lookup

OnCreate = Callable[[Lookup, Json], None]
OnUpdate = Callable[[Lookup, Json, Json], None]


class KindAdmission(NamedTuple):
    """Admission of one kind by a project; if it names a label, only of the objects that have it."""

    resource: Resource
    label: str = ""
    mutate: OnCreate | None = None
    check: OnCreate | None = None
    check_update: OnUpdate | None = None


_KINDS: Final[Mapping[AddOn, tuple[KindAdmission, ...]]] = {
    AddOn.JOBSET: (
        KindAdmission(jobsets.JOB_SETS, "", default_jobset, check_jobset, check_jobset_update),
        KindAdmission(PODS, jobsets.SET_NAME, place_exclusively, check_leader_first),
    ),
    AddOn.LWS: (
        KindAdmission(leaderworkersets.LEADER_WORKER_SETS, "", default_set, check_set, check_set_update),
        KindAdmission(PODS, leaderworkersets.SET_NAME, join_group),
    ),
}


class AddOnAdmission:
    """Stage of the chain for some projects. Kinds are found by name and group, in any version."""

    is_active: Final = True

    def __init__(self, add_ons: Collection[AddOn]) -> None:
        self._kinds: dict[tuple[str, str], list[KindAdmission]] = {}
        for add_on in AddOn:
            for kind in _KINDS[add_on] if add_on in add_ons else ():
                address = (kind.resource.group, kind.resource.plural)
                self._kinds.setdefault(address, []).append(kind)

    def _of(self, write: AdmissionAttributes) -> Iterator[KindAdmission]:
        found = self._kinds.get((write.resource.group, write.resource.plural))
        if found is None or write.subresource or write.object is None:
            return
        for kind in found:
            if not kind.label or kind.label in labels_of(write.object):
                yield kind

    def mutate(self, write: AdmissionAttributes) -> bool:
        """Change a new object, once: the projects' webhooks are not invoked again."""
        changed = False
        for kind in self._of(write) if write.operation == CREATE and not write.is_again else ():
            if kind.mutate is not None:
                obj = deepcopy(write.object)
                assert obj is not None
                kind.mutate(write.lookup, obj)
                write.replace(obj)
                changed = True
        return changed

    def validate(self, write: AdmissionAttributes) -> None:
        for kind in self._of(write):
            if write.operation == CREATE and kind.check is not None and write.object is not None:
                kind.check(write.lookup, write.object)
            elif write.operation == UPDATE and kind.check_update is not None:
                assert write.old is not None
                assert write.object is not None
                kind.check_update(write.lookup, write.old, write.object)
