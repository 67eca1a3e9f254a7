"""Tables of the groups apps and batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    Column,
    age_of,
    duration,
    selector_text,
    spec_of,
)


def _count_of(obj: Json, field: str) -> Any:
    return (obj.get("status") or {}).get(field) or 0


def _replicas(obj: Json) -> int:
    replicas = spec_of(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def _containers(obj: Json) -> list[Json]:
    return list(((spec_of(obj).get("template") or {}).get("spec") or {}).get("containers") or ())


_CONTAINERS: Final = (
    Column(
        "Containers",
        lambda obj, now: ",".join(c.get("name", "") for c in _containers(obj)),
        usual=False,
    ),
    Column("Images", lambda obj, now: ",".join(c.get("image", "") for c in _containers(obj)), usual=False),
)
_SELECTOR: Final = Column(
    "Selector", lambda obj, now: selector_text(spec_of(obj).get("selector")), usual=False
)
DEPLOYMENTS: Final = (
    NAME,
    Column("Ready", lambda obj, now: f"{_count_of(obj, 'readyReplicas')}/{_replicas(obj)}"),
    Column("Up-to-date", lambda obj, now: _count_of(obj, "updatedReplicas"), "integer"),
    Column("Available", lambda obj, now: _count_of(obj, "availableReplicas"), "integer"),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
REPLICA_SETS: Final = (
    NAME,
    Column("Desired", lambda obj, now: _replicas(obj), "integer"),
    Column("Current", lambda obj, now: _count_of(obj, "replicas"), "integer"),
    Column("Ready", lambda obj, now: _count_of(obj, "readyReplicas"), "integer"),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
STATEFUL_SETS: Final = (
    NAME,
    Column("Ready", lambda obj, now: f"{_count_of(obj, 'readyReplicas')}/{_replicas(obj)}"),
    AGE,
    *_CONTAINERS,
)
DAEMON_SETS: Final = (
    NAME,
    Column("Desired", lambda obj, now: _count_of(obj, "desiredNumberScheduled"), "integer"),
    Column("Current", lambda obj, now: _count_of(obj, "currentNumberScheduled"), "integer"),
    Column("Ready", lambda obj, now: _count_of(obj, "numberReady"), "integer"),
    Column("Up-to-date", lambda obj, now: _count_of(obj, "updatedNumberScheduled"), "integer"),
    Column("Available", lambda obj, now: _count_of(obj, "numberAvailable"), "integer"),
    Column(
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
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True":
            if condition.get("type") in ("Complete", "Failed", "Suspended", "FailureTarget"):
                return str(condition["type"])
            if condition.get("type") == "SuccessCriteriaMet":
                return "SuccessCriteriaMet"
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


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
    Column("Status", _job_state),
    Column("Completions", _completions),
    Column("Duration", _job_duration),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
CRON_JOBS: Final = (
    NAME,
    Column("Schedule", lambda obj, now: spec_of(obj).get("schedule", "")),
    Column("Timezone", lambda obj, now: spec_of(obj).get("timeZone") or "<none>"),
    Column("Suspend", lambda obj, now: str(bool(spec_of(obj).get("suspend")))),
    Column("Active", lambda obj, now: len((obj.get("status") or {}).get("active") or ()), "integer"),
    Column(
        "Last Schedule",
        lambda obj, now: age_of((obj.get("status") or {}).get("lastScheduleTime"), now).replace(
            "<unknown>", "<none>"
        ),
    ),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.DEPLOYMENTS: DEPLOYMENTS,
    catalogue.REPLICA_SETS: REPLICA_SETS,
    catalogue.REPLICATION_CONTROLLERS: REPLICA_SETS,
    catalogue.STATEFUL_SETS: STATEFUL_SETS,
    catalogue.DAEMON_SETS: DAEMON_SETS,
    catalogue.JOBS: JOBS,
    catalogue.CRON_JOBS: CRON_JOBS,
}
