"""Owners and selectors of pods: default spreading, disruption budgets and priorities read them."""

from stowplan.api.meta import LabelSelector, Object, Struct


class ServiceSpec(Struct):
    selector: dict[str, str] | None = None


class Service(Object):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct):
    selector: dict[str, str] | None = None


class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SetSpec(Struct):
    selector: LabelSelector | None = None


class ReplicaSet(Object):
    spec: SetSpec = SetSpec()


class StatefulSet(Object):
    spec: SetSpec = SetSpec()


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
