"""Validation of jobs, with their scheduling in groups, and of cron jobs."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, duplicate, invalid, not_supported, required
from stowplan.api.names import dns_label_problems, label_key_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, immutable_errors, selector_errors
from stowplan.localcluster.admission.validation.workloads.podgroups import (
    claims_errors,
    fixed_errors,
    presence_errors,
    topology_errors,
    union_errors,
)
from stowplan.localcluster.admission.validation.workloads.workloads import (
    count_errors,
    labels_of_template,
    matches,
    template_spec_errors,
)
from stowplan.localcluster.objects.cron import ScheduleError, load_zone, parse_schedule

Errors = Iterator[FieldError]
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_MISMATCH: Final = "`selector` does not match template `labels`"
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MAX_PARALLELISM: Final = 100_000
_SOFT_COMPLETIONS: Final = 100_000
_MAX_RULES: Final = 20


def job_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_generated_selector_errors(obj), *job_spec_errors(spec, "spec")]
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += selector_errors(selector, "spec.selector")
    labels = labels_of_template(spec)
    if not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    return errors


def job_create_errors(obj: Json) -> list[FieldError]:
    """The pods of an indexed job have to be able to have names."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    longest = f"{name}-{completions - 1}"
    if not dns_label_problems(longest):
        return []
    text = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid("metadata.name", name, text)]


def _generated_selector_errors(obj: Json) -> Errors:
    """A selector that is not the user's own is the one that the server makes."""
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    labels = labels_of_template(spec)
    path = "spec.template.metadata.labels"
    for key, value in expected.items():
        if key not in labels:
            yield required(f"{path}[{key}]", f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(f"{path}[{key}]", labels, f"must be '{value}'")
    if not matches(selector, expected):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def job_spec_errors(spec: Json, path: str) -> Errors:
    """Errors of a job, also of one in a template."""
    for field in _COUNTS:
        yield from count_errors(spec, field, path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _managed_by_errors(spec.get("managedBy"), f"{path}.managedBy")
    yield from _mode_errors(spec, path)
    if spec.get("podFailurePolicy") is not None:
        yield from _failure_policy_errors(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        yield from _success_policy_errors(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        yield not_supported(f"{path}.podReplacementPolicy", replacement, allowed)
    yield from template_spec_errors(spec.get("template"), f"{path}.template")
    yield from _restart_errors(spec, f"{path}.template.spec.restartPolicy")
    yield from scheduling_errors(spec, path)


def _managed_by_errors(manager: str | None, path: str) -> Errors:
    if manager is None:
        return
    if not manager:
        yield required(path)
        return
    domain, slash, rest = manager.partition("/")
    if not domain or not slash or not rest:
        yield invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if len(manager) > 63:
        yield FieldError(path, Kind.TOO_LONG, "", "may not be more than 63 bytes")


def _mode_errors(spec: Json, path: str) -> Errors:
    mode = spec.get("completionMode", "NonIndexed")
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed = spec.get("maxFailedIndexes")
    if mode not in ("NonIndexed", "Indexed"):
        yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    elif mode == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                yield invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    else:
        if completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if parallelism > _MAX_PARALLELISM:
            text = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", parallelism, text)
        if completions is not None and failed is not None and failed > completions:
            yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
        if failed is not None and failed > _MAX_PARALLELISM:
            text = f"must be less than or equal to {_MAX_PARALLELISM}"
            yield invalid(f"{path}.maxFailedIndexes", failed, text)
        many = completions is not None and completions > _SOFT_COMPLETIONS
        if many and spec.get("backoffLimitPerIndex") is not None and failed is None:
            text = f"must be specified when completions is above {_SOFT_COMPLETIONS}"
            yield required(f"{path}.maxFailedIndexes", text)


_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")


def _failure_policy_errors(spec: Json, path: str) -> Errors:
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > _MAX_RULES:
        yield _too_many(f"{path}.rules", len(rules), _MAX_RULES)
    template = (spec.get("template") or {}).get("spec") or {}
    names = {
        container.get("name")
        for kind in ("containers", "initContainers")
        for container in template.get(kind) or ()
    }
    for i, rule in enumerate(rules):
        here, action = f"{path}.rules[{i}]", rule.get("action") or ""
        if not action:
            yield required(f"{here}.action", _valid_values(_ACTIONS))
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                yield invalid(f"{here}.action", action, "requires the backoffLimitPerIndex to be set")
        elif action not in _ACTIONS:
            yield not_supported(f"{here}.action", action, _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            yield from _exit_code_errors(codes, f"{here}.onExitCodes", names)
        yield from _condition_errors(conditions, f"{here}.onPodConditions")
        if codes is not None and conditions:
            yield _without_value(here, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield _without_value(here, "specifying one of OnExitCodes and OnPodConditions is required")


def _too_many(path: str, count: int, most: int) -> FieldError:
    return FieldError(path, Kind.TOO_MANY, count, f"must have at most {most} items")


def _valid_values(values: Sequence[str]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def _without_value(path: str, text: str) -> FieldError:
    """An invalid value that is not shown."""
    error = invalid(path, "", text)
    shown = FieldError.__new__(FieldError, path, Kind.FORBIDDEN, "", text)
    shown.kind = error.kind
    return shown


def _exit_code_errors(codes: Json, path: str, names: set[Any]) -> Errors:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        yield required(f"{path}.operator", _valid_values(("In", "NotIn")))
    elif operator not in ("In", "NotIn"):
        yield not_supported(f"{path}.operator", operator, ("In", "NotIn"))
    name = codes.get("containerName")
    if name is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, text)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > 255:
        yield _too_many(f"{path}.values", len(values), 255)
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{i}]", value, "must not be 0 for the In operator")
        if value in values[:i]:
            yield duplicate(f"{path}.values[{i}]", value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _condition_errors(conditions: Sequence[Json], path: str) -> Errors:
    if len(conditions) > _MAX_RULES:
        yield _too_many(path, len(conditions), _MAX_RULES)
    for i, condition in enumerate(conditions):
        here, kind = f"{path}[{i}]", condition.get("type") or ""
        yield from (invalid(f"{here}.type", kind, problem) for problem in label_key_problems(kind))
        state = condition.get("status") or ""
        if state not in ("False", "True", "Unknown"):
            yield not_supported(f"{here}.status", state, ("False", "True", "Unknown"))


def _success_policy_errors(spec: Json, path: str) -> Errors:
    if spec.get("completionMode") != "Indexed":
        yield invalid(path, spec["successPolicy"], "requires indexed completion mode")
        return
    rules, completions = spec["successPolicy"].get("rules") or (), spec.get("completions") or 0
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", text)
    if len(rules) > _MAX_RULES:
        yield _too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for i, rule in enumerate(rules):
        here, count = f"{path}.rules[{i}]", rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            yield required(here, "at least one of succeededCount or succeededIndexes must be specified")
        yield from count_errors(rule, "succeededCount", here)
        if count is not None and count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            yield invalid(f"{here}.succeededCount", count, text)


def _restart_errors(spec: Json, path: str) -> Errors:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in ("Always", ""):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def cron_job_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    else:
        errors += _schedule_errors(spec["schedule"])
    errors += count_errors(spec, "startingDeadlineSeconds")
    if spec.get("timeZone") is not None:
        errors += _time_zone_errors(spec["timeZone"])
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        errors.append(not_supported("spec.concurrencyPolicy", policy or "", ["Allow", "Forbid", "Replace"]))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += job_spec_errors(template, "spec.jobTemplate.spec")
    if template.get("manualSelector"):
        path = "spec.jobTemplate.spec.manualSelector"
        errors.append(FieldError(path, Kind.NOT_SUPPORTED, True, 'supported values: "nil", "false"'))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += count_errors(spec, field)
    return errors


def cron_job_create_errors(obj: Json) -> list[FieldError]:
    """The jobs of a cron job have its name and eleven characters more."""
    if len(obj["metadata"].get("name", "")) <= 52:
        return []
    name = obj["metadata"]["name"]
    return [invalid("metadata.name", name, "must be no more than 52 characters")]


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


def job_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors: list[FieldError] = []
    if before.get("completions") != after.get("completions"):
        errors += _completions_errors(before, after)
    errors += immutable_errors(old, new, "spec", "selector")
    errors += _template_update_errors(old, new)
    for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        errors += immutable_errors(old, new, "spec", field)
    return [*errors, *scheduling_update_errors(before, after)]


def _completions_errors(before: Json, after: Json) -> Errors:
    """An indexed job may get more or fewer completions if its parallelism goes with them."""
    path, wanted = "spec.completions", after.get("completions")
    if before.get("completionMode") != "Indexed":
        yield invalid(path, wanted, IMMUTABLE)
    elif wanted is None:
        yield required(path, "when completion mode is Indexed")
    elif wanted != after.get("parallelism"):
        yield invalid(path, wanted, "can only be modified in tandem with parallelism")


_SCHEDULING: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _template_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Where the pods of a job run may be changed while it is suspended and has none."""
    before, after = (obj.get("spec") or {} for obj in (old, new))
    was, now = before.get("template"), after.get("template")
    started = (old.get("status") or {}).get("startTime")
    if before.get("suspend") and not started:
        was, now = _without_scheduling(was), _without_scheduling(now)
    return [] if was == now else [invalid("spec.template", after.get("template"), IMMUTABLE)]


def _without_scheduling(template: Any) -> Json:
    spec = {
        field: value
        for field, value in ((template or {}).get("spec") or {}).items()
        if field not in _SCHEDULING
    }
    return {**(template or {}), "spec": spec, "metadata": {}}


def job_status_errors(old: Json, new: Json) -> list[FieldError]:
    status = new.get("status") or {}
    errors: list[FieldError] = []
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += count_errors(status, field, "status")
    return errors


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.JOBS: job_errors,
    catalogue.CRON_JOBS: cron_job_errors,
}
ON_CREATE: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.JOBS: job_create_errors,
    catalogue.CRON_JOBS: cron_job_create_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.JOBS: job_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.JOBS: job_status_errors,
}


def scheduling_errors(spec: Json, path: str) -> Errors:
    """Errors of `scheduling` in the spec of a job."""
    scheduling, path = spec.get("scheduling"), f"{path}.scheduling"
    if scheduling is None:
        return
    policy, mode = scheduling.get("schedulingPolicy"), scheduling.get("disruptionMode")
    if policy is not None:
        yield from _policy_errors(policy, spec.get("parallelism"), f"{path}.schedulingPolicy")
    if scheduling.get("schedulingConstraints") is not None:
        yield from topology_errors(scheduling["schedulingConstraints"], f"{path}.schedulingConstraints")
    if mode is not None:
        yield from union_errors(mode, ("single", "all"), f"{path}.disruptionMode")
        if mode.get("all") is not None and (policy is None or policy.get("basic") is not None):
            text = "the disruptionMode `all` is not supported with the Basic scheduling policy"
            yield invalid(f"{path}.disruptionMode", "", text)
    yield from claims_errors(scheduling.get("resourceClaims") or (), f"{path}.resourceClaims")


def _policy_errors(policy: Json, parallelism: int | None, path: str) -> Errors:
    """A gang that does not say how many pods it needs needs all that run at a time."""
    yield from union_errors(policy, ("basic", "gang"), path)
    count, most = (policy.get("gang") or {}).get("minCount"), 1 if parallelism is None else parallelism
    if count is None:
        return
    if count < 1:
        yield invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")
    elif count > most:
        text = f"must not be greater than parallelism ({most})"
        yield invalid(f"{path}.gang.minCount", count, text)


def scheduling_update_errors(old: Json, new: Json) -> Errors:
    """Only the number of pods that a gang needs may change."""
    yield from presence_errors(old, new, "scheduling", "spec")
    before, after, path = old.get("scheduling"), new.get("scheduling"), "spec.scheduling"
    if before is None or after is None:
        return
    yield from presence_errors(before, after, "schedulingPolicy", path)
    fixed = ("schedulingConstraints", "disruptionMode", "resourceClaims")
    yield from fixed_errors(before, after, fixed, path)
    policies = before.get("schedulingPolicy"), after.get("schedulingPolicy")
    if None in policies:
        return
    had, has = (policy.get("basic") is not None for policy in policies)
    if had != has:
        text = (
            "the basic/gang policy variant is immutable after creation; "
            "only schedulingPolicy.gang.minCount may be updated"
        )
        yield invalid(f"{path}.schedulingPolicy", None, text)
