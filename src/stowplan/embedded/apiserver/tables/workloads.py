"""The tables of what makes pods."""

from typing import Any, Final

from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, age_of, duration


def _spec(obj: Json) -> Any:
    return obj.get("spec") or {}


def _told(obj: Json, field: str) -> Any:
    return (obj.get("status") or {}).get(field) or 0


def _wanted(obj: Json) -> int:
    replicas = _spec(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def _containers(obj: Json) -> list[Json]:
    return list(((_spec(obj).get("template") or {}).get("spec") or {}).get("containers") or ())


def selector_text(selector: Any) -> str:
    """A selector as people write it."""
    if not selector:
        return "<none>"
    labels = selector.get("matchLabels") or {}
    if not labels and "matchExpressions" not in selector:
        labels = {key: value for key, value in selector.items() if isinstance(value, str)}
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator"), term.get("key")
        values = ",".join(term.get("values") or ())
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": str(key)}
        terms.append(shown.get(str(operator), f"!{key}"))
    return ",".join(terms) or "<none>"


_CONTAINERS: Final = (
    Column(
        "Containers",
        lambda obj, now: ",".join(c.get("name", "") for c in _containers(obj)),
        usual=False,
    ),
    Column("Images", lambda obj, now: ",".join(c.get("image", "") for c in _containers(obj)), usual=False),
)
_SELECTOR: Final = Column("Selector", lambda obj, now: selector_text(_spec(obj).get("selector")), usual=False)

DEPLOYMENTS: Final = (
    NAME,
    Column("Ready", lambda obj, now: f"{_told(obj, 'readyReplicas')}/{_wanted(obj)}"),
    Column("Up-to-date", lambda obj, now: _told(obj, "updatedReplicas"), "integer"),
    Column("Available", lambda obj, now: _told(obj, "availableReplicas"), "integer"),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
REPLICA_SETS: Final = (
    NAME,
    Column("Desired", lambda obj, now: _wanted(obj), "integer"),
    Column("Current", lambda obj, now: _told(obj, "replicas"), "integer"),
    Column("Ready", lambda obj, now: _told(obj, "readyReplicas"), "integer"),
    AGE,
    *_CONTAINERS,
    _SELECTOR,
)
STATEFUL_SETS: Final = (
    NAME,
    Column("Ready", lambda obj, now: f"{_told(obj, 'readyReplicas')}/{_wanted(obj)}"),
    AGE,
    *_CONTAINERS,
)
DAEMON_SETS: Final = (
    NAME,
    Column("Desired", lambda obj, now: _told(obj, "desiredNumberScheduled"), "integer"),
    Column("Current", lambda obj, now: _told(obj, "currentNumberScheduled"), "integer"),
    Column("Ready", lambda obj, now: _told(obj, "numberReady"), "integer"),
    Column("Up-to-date", lambda obj, now: _told(obj, "updatedNumberScheduled"), "integer"),
    Column("Available", lambda obj, now: _told(obj, "numberAvailable"), "integer"),
    Column(
        "Node Selector",
        lambda obj, now: selector_text(
            ((_spec(obj).get("template") or {}).get("spec") or {}).get("nodeSelector")
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
    done, wanted = _told(job, "succeeded"), _spec(job).get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = _spec(job).get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: Json, now: float) -> str:
    told = job.get("status") or {}
    begun, ended = told.get("startTime"), told.get("completionTime")
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
    Column("Schedule", lambda obj, now: _spec(obj).get("schedule", "")),
    Column("Timezone", lambda obj, now: _spec(obj).get("timeZone") or "<none>"),
    Column("Suspend", lambda obj, now: str(bool(_spec(obj).get("suspend")))),
    Column("Active", lambda obj, now: len((obj.get("status") or {}).get("active") or ()), "integer"),
    Column(
        "Last Schedule",
        lambda obj, now: age_of((obj.get("status") or {}).get("lastScheduleTime"), now).replace(
            "<unknown>", "<none>"
        ),
    ),
    AGE,
)
