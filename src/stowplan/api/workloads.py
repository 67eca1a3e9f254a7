"""Workloads, services, budgets and priority classes: what owns, selects, protects and ranks pods."""

from stowplan.api.meta import LabelSelector, Object, ObjectMeta, Struct
from stowplan.api.pod import PodSpec


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class ReplicationController(Object, frozen=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadCondition(Struct, frozen=True):
    """A condition of a workload, such as `ReplicaFailure` of a set or `Failed` of a Job."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class SetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    replicas: int | None = None


class SetStatus(Struct, frozen=True):
    """Conditions alone: how many replicas there are and are ready changes too often to be kept."""

    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicaSet(Object, frozen=True):
    spec: SetSpec = SetSpec()
    status: SetStatus = SetStatus()


class StatefulSetSpec(SetSpec, frozen=True):
    pod_management_policy: str = ""


class StatefulSet(Object, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()


class DeploymentSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    replicas: int | None = None
    paused: bool = False


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: SetStatus = SetStatus()


class PodTemplate(Struct, frozen=True):
    """The template of a workload's pods; kept where nobody watches, as templates are large."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class DaemonSetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class DaemonSetStatus(Struct, frozen=True):
    desired_number_scheduled: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class DaemonSet(Object, frozen=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False


class JobStatus(Struct, frozen=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class Job(Object, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CronJobSpec(Struct, frozen=True):
    schedule: str = ""
    suspend: bool = False


class CronJobStatus(Struct, frozen=True):
    last_schedule_time: str | None = None


class CronJob(Object, frozen=True):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


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
