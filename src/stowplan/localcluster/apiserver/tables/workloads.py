"""Tables of the groups apps, batch and autoscaling."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    TableColumn,
    age_of,
    duration,
    first_of,
    selector_text,
    spec_of,
    status_of,
)


def _count_of(obj: Json, field: str) -> Any:
    return (obj.get("status") or {}).get(field) or 0


def _replicas(obj: Json) -> int:
    replicas = spec_of(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def _workload(obj: Json) -> Any:
    """The spec that has the template of pods: of a cron job that of its jobs."""
    spec = spec_of(obj)
    return (spec["jobTemplate"] or {}).get("spec") or {} if "jobTemplate" in spec else spec


def _containers(obj: Json) -> list[Json]:
    return list(((_workload(obj).get("template") or {}).get("spec") or {}).get("containers") or ())


_CONTAINERS: Final = (
    TableColumn(
        "Containers",
        lambda obj, now: ",".join(c.get("name", "") for c in _containers(obj)),
        usual=False,
    ),
    TableColumn(
        "Images", lambda obj, now: ",".join(c.get("image", "") for c in _containers(obj)), usual=False
    ),
)
_SELECTOR: Final = TableColumn(
    "Selector", lambda obj, now: selector_text(spec_of(obj).get("selector")), usual=False
)
DEPLOYMENTS: Final = (
    NAME,
    TableColumn("Ready", lambda obj, now: f"{_count_of(obj, 'readyReplicas')}/{_replicas(obj)}"),
    TableColumn("Up-to-date", lambda obj, now: _count_of(obj, "updatedReplicas")),
    TableColumn("Available", lambda obj, now: _count_of(obj, "availableReplicas")),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
REPLICA_SETS: Final = (
    NAME,
    TableColumn("Desired", lambda obj, now: _replicas(obj), "integer"),
    TableColumn("Current", lambda obj, now: _count_of(obj, "replicas"), "integer"),
    TableColumn("Ready", lambda obj, now: _count_of(obj, "readyReplicas"), "integer"),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
STATEFUL_SETS: Final = (
    NAME,
    TableColumn("Ready", lambda obj, now: f"{_count_of(obj, 'readyReplicas')}/{_replicas(obj)}"),
    AGE,
    *_CONTAINERS,
)
DAEMON_SETS: Final = (
    NAME,
    TableColumn("Desired", lambda obj, now: _count_of(obj, "desiredNumberScheduled"), "integer"),
    TableColumn("Current", lambda obj, now: _count_of(obj, "currentNumberScheduled"), "integer"),
    TableColumn("Ready", lambda obj, now: _count_of(obj, "numberReady"), "integer"),
    TableColumn("Up-to-date", lambda obj, now: _count_of(obj, "updatedNumberScheduled"), "integer"),
    TableColumn("Available", lambda obj, now: _count_of(obj, "numberAvailable"), "integer"),
    TableColumn(
        "Node Selector",
        lambda obj, now: selector_text(
            ((spec_of(obj).get("template") or {}).get("spec") or {}).get("nodeSelector")
        ),
    ),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)


def _job_state(job: Json, now: float) -> str:
    true = {
        condition.get("type")
        for condition in status_of(job).get("conditions") or ()
        if condition.get("status") == "True"
    }
    if "deletionTimestamp" in job["metadata"]:
        true.add("Terminating")
    order = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((state for state in order if state in true), "Running")


def _completions(job: Json, now: float) -> str:
    done, wanted = _count_of(job, "succeeded"), spec_of(job).get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = spec_of(job).get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: Json, now: float) -> str:
    status = job.get("status") or {}
    begun, ended = status.get("startTime"), status.get("completionTime")
    if not begun:
        return ""
    return duration((seconds_of(ended) if ended else now) - seconds_of(begun))


JOBS: Final = (
    NAME,
    TableColumn("Status", _job_state),
    TableColumn("Completions", _completions),
    TableColumn("Duration", _job_duration),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
CRON_JOBS: Final = (
    NAME,
    TableColumn("Schedule", lambda obj, now: spec_of(obj).get("schedule", "")),
    TableColumn("Timezone", lambda obj, now: spec_of(obj).get("timeZone") or "<none>"),
    TableColumn("Suspend", lambda obj, now: str(spec_of(obj).get("suspend", "<unset>")), "boolean"),
    TableColumn("Active", lambda obj, now: len((obj.get("status") or {}).get("active") or ()), "integer"),
    TableColumn(
        "Last Schedule",
        lambda obj, now: age_of((obj.get("status") or {}).get("lastScheduleTime"), now).replace(
            "<unknown>", "<none>"
        ),
    ),
    AGE,
    *_CONTAINERS,
    TableColumn("Selector", lambda obj, now: selector_text(_workload(obj).get("selector")), usual=False),
)


def _controller(revision: Json, now: float) -> str:
    for owner in revision["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            kind = f"{owner.get('kind')}.{group}" if group else str(owner.get("kind"))
            return f"{kind.lower()}/{owner.get('name')}"
    return "<none>"


REVISIONS: Final = (
    NAME,
    TableColumn("Controller", _controller),
    TableColumn("Revision", lambda obj, now: obj.get("revision") or 0),
    AGE,
)


def _targets(autoscaler: Json, now: float) -> str:
    """Every metric as it is and as it should be."""
    current = status_of(autoscaler).get("currentMetrics") or ()
    found = [
        _target(metric, current[i] if i < len(current) else {})
        for i, metric in enumerate(spec_of(autoscaler).get("metrics") or ())
    ]
    return first_of(found, 2, none="<none>", joined=", ")


def _target(metric: Json, current: Json) -> str:
    source = {
        "External": "external",
        "Pods": "pods",
        "Object": "object",
        "Resource": "resource",
        "ContainerResource": "containerResource",
    }.get(metric.get("type", ""))
    if source is None:
        return "<unknown type>"
    wanted = (metric.get(source) or {}).get("target") or {}
    now = (current.get(source) or {}).get("current") or {}
    name = f"{metric[source].get('name')}: " if source in ("resource", "containerResource") else ""
    if wanted.get("averageValue") is not None:
        average = " (avg)" if source in ("external", "object") else ""
        return f"{name}{now.get('averageValue', '<unknown>')}/{wanted['averageValue']}{average}"
    if not name:
        return f"{now.get('value', '<unknown>')}/{wanted.get('value')}"
    used, utilization = now.get("averageUtilization"), wanted.get("averageUtilization")
    shown = "<unknown>" if used is None else f"{used}%"
    return f"{name}{shown}/" + ("<auto>" if utilization is None else f"{utilization}%")


def _reference(autoscaler: Json, now: float) -> str:
    target = spec_of(autoscaler).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


AUTOSCALERS: Final = (
    NAME,
    TableColumn("Reference", _reference),
    TableColumn("Targets", _targets),
    TableColumn("MinPods", lambda obj, now: str(spec_of(obj).get("minReplicas", "<unset>"))),
    TableColumn("MaxPods", lambda obj, now: spec_of(obj).get("maxReplicas") or 0),
    TableColumn("Replicas", lambda obj, now: _count_of(obj, "currentReplicas")),
    AGE,
)

SCALES: Final = (
    NAME._replace(format=""),
    TableColumn("Desired", lambda obj, now: spec_of(obj).get("replicas") or 0, "integer"),
    TableColumn("Available", lambda obj, now: _count_of(obj, "replicas"), "integer"),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.DEPLOYMENTS: DEPLOYMENTS,
    catalogue.REPLICA_SETS: REPLICA_SETS,
    catalogue.REPLICATION_CONTROLLERS: REPLICA_SETS,
    catalogue.STATEFUL_SETS: STATEFUL_SETS,
    catalogue.DAEMON_SETS: DAEMON_SETS,
    catalogue.JOBS: JOBS,
    catalogue.CRON_JOBS: CRON_JOBS,
    catalogue.CONTROLLER_REVISIONS: REVISIONS,
    catalogue.SCALES: SCALES,
    catalogue.HORIZONTAL_POD_AUTOSCALERS: AUTOSCALERS,
    catalogue.HORIZONTAL_POD_AUTOSCALERS_V1: AUTOSCALERS,
}
