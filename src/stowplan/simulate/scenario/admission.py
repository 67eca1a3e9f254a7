"""The API server of a scenario: what its pods become when they are created, and which are refused.

The chain is that of `simulate.creation`. Pods of a template are the same but for their names, so the chain is
asked once for each template, and of a trace once for each combination of namespace, amounts and priority.
Annotations of a trace are added afterwards, because no rule reads them. Quotas are charged for each pod.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.api.admission import ResourceQuota
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.simulate.creation.admission import AdmissionStore, Quotas
from stowplan.simulate.scenario.model import Scenario, Workload
from stowplan.simulate.scenario.objects import annotated, body_of
from stowplan.simulate.snapshot.traces import TracePod

_PRIORITY: Final = ("priority", "priorityClassName", "preemptionPolicy")
_OF_ONE_POD: Final = ("creationTimestamp", "name", "resourceVersion", "uid")


@dataclass(frozen=True, slots=True)
class PodPlan:
    """Pods to be created: their body without a name, or why the API server refuses them."""

    workload: Workload
    body: Json
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod to be created, and how long it runs (None: for ever)."""

    plan: PodPlan
    lifetime: float | None


class ScenarioAdmission:
    """Admission over the objects of a scenario.

    Pods of a recording have been through it: nothing is asked for them.
    """

    def __init__(self, scenario: Scenario, gates: FeatureGates) -> None:
        self._objects = [] if scenario.admitted else scenario.objects
        self._server = None if scenario.admitted else AdmissionStore(scenario.objects, gates)
        self._plans: dict[tuple[object, ...], PodPlan] = {}
        quotas = [one for one in self._objects if isinstance(one, ResourceQuota)]
        self._used: dict[str, Json] = {}
        self._quotas = Quotas(lambda: quotas, self._at_first, self._used, self._used.__setitem__)
        self._limited = frozenset(one.namespace for one in quotas)
        for namespace in sorted(self._limited):
            # Quotas without a status count what there is at the beginning, so they are read before any pod.
            for quota in self._quotas.within(PODS, namespace):
                self._used[f"{namespace}/{quota['metadata']['name']}"] = quota

    def _at_first(self, resource: Resource, namespace: str) -> Iterator[Object]:
        for obj in self._objects:
            if type(obj).__name__ == resource.kind and obj.namespace == namespace:
                yield obj

    def plan(self, workload: Workload) -> PodPlan:
        """The pods of a workload."""
        return self._planned(workload, workload.template, (workload.name,))

    def plan_traced(self, workload: Workload, pod: TracePod) -> PodPlan:
        """A pod of a workload's trace."""
        key = (workload.name, pod.namespace, pod.requests, pod.priority)
        known = self._plans.get(key)
        if known is None:
            known = self._planned(workload, body_of(workload.template, pod), key)
        if not pod.annotations or known.refusal:
            return known
        return PodPlan(workload, annotated(known.body, pod.annotations))

    def _planned(self, workload: Workload, template: Json, key: tuple[object, ...]) -> PodPlan:
        try:
            plan = PodPlan(workload, self._admitted(workload, template))
        except ApiError as error:
            plan = PodPlan(workload, template, error.message)
        self._plans[key] = plan
        return plan

    def _admitted(self, workload: Workload, template: Json) -> Json:
        """The body of a pod as it is stored.

        A priority that the scenario states stands for a class of that priority, whether there is one or not:
        the rule that computes priorities from classes would refuse it.
        """
        if self._server is None:
            return template
        spec = template["spec"]
        stated = {field: spec[field] for field in _PRIORITY if field in spec} if "priority" in spec else None
        if stated is not None:
            spec = {field: value for field, value in spec.items() if field not in _PRIORITY}
        metadata = {**template["metadata"], "name": f"{workload.name}-0"}
        made = self._server.admitted(PODS, {**template, "metadata": metadata, "spec": spec})
        spec = made["spec"]
        if stated is not None:
            spec = {field: value for field, value in spec.items() if field not in _PRIORITY} | stated
        metadata = {field: value for field, value in made["metadata"].items() if field not in _OF_ONE_POD}
        return {**template, "metadata": metadata, "spec": spec}

    def charge(self, body: Json) -> str:
        """Charge quotas for a pod; why they do not allow it, "" if they do."""
        if body["metadata"]["namespace"] not in self._limited:
            return ""
        return self._quotas.charge(PODS, body).refusal

    def release(self, pod: Json) -> bool:
        """Give back what a pod was charged for; whether quotas of its namespace may have room now."""
        if pod["metadata"].get("namespace", "") not in self._limited:
            return False
        self._quotas.release(PODS, msgspec.convert(pod, Pod))
        return True
