"""Owners and selectors of pods: default spreading, disruption budgets and priorities read them."""

from stowplan.api.meta import LabelSelector, Object, Struct


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class ReplicationController(Object, frozen=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class SetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True):
    spec: SetSpec = SetSpec()


class StatefulSet(Object, frozen=True):
    spec: SetSpec = SetSpec()


class PodDisruptionBudgetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object, frozen=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
