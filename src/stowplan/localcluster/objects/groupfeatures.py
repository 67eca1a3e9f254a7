"""The gates of pod groups, as the API server sees them: which kinds it serves and which fields it takes.

kube-apiserver drops the fields of a gate that is off before it validates an object, and says nothing. Here
they are refused by the error that its validation has for them, except for `schedulingGroup` of pods:
manifests that have it are meant to work without groups, too, so it is dropped, and the writer is warned.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.fielderrors import FieldError, child, forbidden
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod_groups import GATES
from stowplan.api.requests import Json

_GROUPS: Final = (
    catalogue.POD_GROUPS,
    catalogue.POD_GROUPS_V1ALPHA3,
    catalogue.WORKLOADS,
    catalogue.WORKLOADS_V1ALPHA3,
)
_TEMPLATES: Final = ("podGroupTemplates", "compositePodGroupTemplates")
DROPPED: Final = "spec.schedulingGroup: dropped, because the feature gate GenericWorkload is off"
"""Warning for the writer of a pod whose group was dropped."""


@dataclass(frozen=True, slots=True)
class GroupFeatures:
    """Which parts of pod groups there are, each a gate; all of them unless gates say otherwise."""

    groups: bool = True
    topology: bool = True
    composite: bool = True
    preemption_policy: bool = True
    claims: bool = True
    jobs: bool = True

    @classmethod
    def of(cls, gates: FeatureGates) -> "GroupFeatures":
        return cls(*(gates[name] for name in GATES))

    def catalogue(self) -> Catalogue:
        """Served kinds: every built-in one except those of gates that are off."""
        served = Catalogue()
        for resource in () if self.groups else _GROUPS:
            served.remove(resource)
        if not self.composite:
            served.remove(catalogue.COMPOSITE_POD_GROUPS)
        return served

    def drop_disabled(self, resource: Resource, old: Json | None, new: Json) -> None:
        """Take the group out of a pod that is not to have one. One that it has already stays."""
        if self.groups or resource != catalogue.PODS:
            return
        if "schedulingGroup" in new["spec"] and "schedulingGroup" not in ((old or {}).get("spec") or {}):
            del new["spec"]["schedulingGroup"]

    def errors(self, resource: Resource, old: Json | None, new: Json) -> list[FieldError]:
        """Fields of gates that are off. Existing ones may stay."""
        rules = _RULES.get(resource)
        if rules is None:
            return []
        before = {} if old is None else {error.path for error in rules(self, old)}
        return [error for error in rules(self, new) if error.path not in before]

    def _disabled_fields(self) -> Iterator[tuple[str, str]]:
        fields = (
            (self.topology, "schedulingConstraints", GATES[1]),
            (self.composite, "parentCompositePodGroupName", GATES[2]),
            (self.composite, "compositePodGroupTemplates", GATES[2]),
            (self.preemption_policy, "preemptionPolicy", GATES[3]),
            (self.claims, "resourceClaims", GATES[4]),
        )
        return ((field, gate) for is_on, field, gate in fields if not is_on)

    def _group_errors(self, obj: Json) -> Iterator[FieldError]:
        return self._spec_errors(obj.get("spec") or {}, "spec")

    def _spec_errors(self, spec: Json, path: str) -> Iterator[FieldError]:
        for field, gate in self._disabled_fields():
            if spec.get(field):
                yield _needs(child(path, field), gate)
        for templates in _TEMPLATES:
            for i, template in enumerate(spec.get(templates) or ()):
                yield from self._spec_errors(template, f"{path}.{templates}[{i}]")

    def _job_errors(self, obj: Json) -> Iterator[FieldError]:
        return self._scheduling_errors(obj.get("spec") or {}, "spec")

    def _cron_job_errors(self, obj: Json) -> Iterator[FieldError]:
        template = (obj.get("spec") or {}).get("jobTemplate") or {}
        return self._scheduling_errors(template.get("spec") or {}, "spec.jobTemplate.spec")

    def _scheduling_errors(self, spec: Json, path: str) -> Iterator[FieldError]:
        scheduling = spec.get("scheduling")
        if scheduling is None:
            return
        if not self.jobs:
            yield _needs(child(path, "scheduling"), GATES[5])
        else:
            yield from self._spec_errors(scheduling, child(path, "scheduling"))


def _needs(path: str, gate: str) -> FieldError:
    return forbidden(path, f"the feature gate {gate} is off")


_RULES: Final[Mapping[Resource, Callable[[GroupFeatures, Json], Iterator[FieldError]]]] = {
    catalogue.POD_GROUPS: GroupFeatures._group_errors,
    catalogue.COMPOSITE_POD_GROUPS: GroupFeatures._group_errors,
    catalogue.WORKLOADS: GroupFeatures._group_errors,
    catalogue.JOBS: GroupFeatures._job_errors,
    catalogue.CRON_JOBS: GroupFeatures._cron_job_errors,
}
