"""Validation of the groups apps and batch, and of ReplicationControllers.

Selectors have to match their templates, and templates have to be valid pods.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.cron import ScheduleError, load_zone, parse_schedule
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.embedded.admission.validation.meta import (
    NOT_NEGATIVE,
    fields_except,
    immutable_errors,
    label_errors,
    selector_errors,
)
from stowplan.embedded.admission.validation.pods import pod_spec_errors

_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_MISMATCH: Final = "`selector` does not match template `labels`"


def replicated_errors(obj: Json) -> list[FieldError]:
    """Deployments, ReplicaSets, StatefulSets and DaemonSets."""
    spec = obj.get("spec") or {}
    errors = [*_count_errors(spec, "replicas"), *_count_errors(spec, "minReadySeconds")]
    errors += _count_errors(spec, "revisionHistoryLimit")
    errors += _selector_errors(spec)
    claims = [
        (claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
    ]
    errors += template_errors(spec.get("template"), "spec.template", ("Always",), claims)
    return errors


def replication_controller_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_count_errors(spec, "replicas")]
    if not spec.get("selector"):
        errors.append(required("spec.selector"))
    elif not spec["selector"].items() <= _labels(spec).items():
        errors.append(invalid("spec.template.metadata.labels", _labels(spec), _MISMATCH))
    errors += template_errors(spec.get("template"), "spec.template", ("Always",))
    return errors


def job_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    return [*_job_spec_errors(spec, "spec"), *_selector_errors(spec)]


def cron_job_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    else:
        errors += _schedule_errors(spec["schedule"])
    if spec.get("timeZone") is not None:
        errors += _time_zone_errors(spec["timeZone"])
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        errors.append(not_supported("spec.concurrencyPolicy", policy or "", ["Allow", "Forbid", "Replace"]))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += _job_spec_errors(template, "spec.jobTemplate.spec")
    return errors


def _schedule_errors(schedule: str) -> Iterator[FieldError]:
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        yield invalid("spec.schedule", schedule, str(error))
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, why)


def _time_zone_errors(zone: str) -> Iterator[FieldError]:
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif not all(_is_zone_part(part) for part in zone.split("/")):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    elif zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", zone, why)
    else:
        try:
            load_zone(zone)
        except ScheduleError as error:
            yield invalid("spec.timeZone", zone, str(error))


def _is_zone_part(part: str) -> bool:
    return part not in (".", "..") and not part.startswith("-") and bool(_ZONE_PART.fullmatch(part))


def _job_spec_errors(spec: Json, path: str) -> Iterator[FieldError]:
    for field in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        yield from _count_errors(spec, field, path)
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ["NonIndexed", "Indexed"])
    elif mode == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    yield from template_errors(spec.get("template"), f"{path}.template", ("OnFailure", "Never"))


def template_errors(
    template: Any, path: str, restarts: tuple[str, ...], claims: Sequence[str] = ()
) -> Iterator[FieldError]:
    """What is wrong with a template of pods. `claims`: volumes that its pods get besides their own."""
    if not template:
        yield required(path)
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from label_errors(labels, f"{path}.labels")
    spec = template.get("spec") or {}
    yield from pod_spec_errors(spec, f"{path}.spec", claims)
    policy = spec.get("restartPolicy")
    if policy not in restarts:
        if len(restarts) > 1:
            yield required(f"{path}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        else:
            yield not_supported(f"{path}.spec.restartPolicy", policy or "", restarts)


def _count_errors(spec: Json, field: str, path: str = "spec") -> Iterator[FieldError]:
    number = spec.get(field)
    if number is not None and number < 0:
        yield invalid(f"{path}.{field}", number, NOT_NEGATIVE)


def _labels(spec: Json) -> Any:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}


def _selector_errors(spec: Json) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    wrong = [*selector_errors(selector, "spec.selector")]
    yield from wrong
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
        return
    if wrong:
        return
    try:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError) as error:
        yield invalid("spec.selector", selector, str(error))
        return
    labels = _labels(spec)
    if spec.get("template") and not compiled.matches(labels):
        yield invalid("spec.template.metadata.labels", labels, _MISMATCH)


_STATEFUL_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE: Final = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)


def selector_update_errors(old: Json, new: Json) -> list[FieldError]:
    return immutable_errors(old, new, "spec", "selector")


def stateful_set_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if fields_except(before, _STATEFUL_MUTABLE) != fields_except(after, _STATEFUL_MUTABLE):
        return [forbidden("spec", _STATEFUL_RULE)]
    return []


def job_update_errors(old: Json, new: Json) -> list[FieldError]:
    errors = immutable_errors(old, new, "spec", "selector")
    suspended = (old.get("spec") or {}).get("suspend") and not (old.get("status") or {}).get("startTime")
    if not suspended:
        errors += immutable_errors(old, new, "spec", "template")
    errors += immutable_errors(old, new, "spec", "completionMode")
    if (old.get("spec") or {}).get("completionMode") != "Indexed":
        errors += immutable_errors(old, new, "spec", "completions")
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.DEPLOYMENTS: replicated_errors,
    catalogue.REPLICA_SETS: replicated_errors,
    catalogue.STATEFUL_SETS: replicated_errors,
    catalogue.DAEMON_SETS: replicated_errors,
    catalogue.REPLICATION_CONTROLLERS: replication_controller_errors,
    catalogue.JOBS: job_errors,
    catalogue.CRON_JOBS: cron_job_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.DEPLOYMENTS: selector_update_errors,
    catalogue.REPLICA_SETS: selector_update_errors,
    catalogue.DAEMON_SETS: selector_update_errors,
    catalogue.STATEFUL_SETS: stateful_set_update_errors,
    catalogue.JOBS: job_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {}
