"""Validation of pod groups, composite pod groups and workloads of scheduling.k8s.io.

`admission.groupfeatures` checks the fields that a gate forbids.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import (
    FieldError,
    child,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    path_segment_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.conditions import conditions_errors
from stowplan.localcluster.admission.validation.devices.deviceparts import too_many
from stowplan.localcluster.admission.validation.meta import IMMUTABLE, name_errors

Errors = Iterator[FieldError]

MAX_PRIORITY: Final = 1_000_000_000
MAX_CLAIMS: Final = 4
_MAX_TOPOLOGY: Final = 1
_MAX_TEMPLATES: Final = 8
_MAX_DEPTH: Final = 4
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")
_SET: Final = "field cannot be set once created"
_CLEARED: Final = "field cannot be cleared once set"
_TEMPLATES: Final = "podGroupTemplates"
_COMPOSITES: Final = "compositePodGroupTemplates"
_FIXED_IN_TEMPLATE: Final = (
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


# Parts that the kinds have in common


def union_errors(value: Json, members: Sequence[str], path: str) -> Errors:
    """Exactly one of some fields is to be set."""
    found = [name for name in members if value.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not found:
        yield invalid(path, "", f"must specify one of: {listed}")
    elif len(found) > 1:
        yield invalid(path, "{" + ", ".join(found) + "}", f"must specify exactly one of: {listed}")


def policy_errors(policy: Json, path: str, count: str = "minCount") -> Errors:
    """`basic`, or `gang` with a number of pods or of groups."""
    gang = policy.get("gang")
    yield from union_errors(policy, ("basic", "gang"), path)
    if gang is not None:
        yield from count_errors(gang.get(count), f"{path}.gang.{count}")


def count_errors(count: int | None, path: str) -> Errors:
    if not count:
        yield required(path)
    elif count < 1:
        yield invalid(path, count, "must be greater than or equal to 1")


def topology_errors(constraints: Json, path: str) -> Errors:
    keys = constraints.get("topology") or ()
    if len(keys) > _MAX_TOPOLOGY:
        yield too_many(f"{path}.topology", len(keys), _MAX_TOPOLOGY)
        return
    for i, constraint in enumerate(keys):
        yield from name_errors(f"{path}.topology[{i}].key", constraint.get("key"), label_key_problems)


def claims_errors(claims: Sequence[Json], path: str) -> Errors:
    """Claims that pods of a group share."""
    if len(claims) > MAX_CLAIMS:
        yield too_many(path, len(claims), MAX_CLAIMS)
        return
    yield from _duplicate_errors(claims, path)
    for i, claim in enumerate(claims):
        here = f"{path}[{i}]"
        yield from union_errors(claim, ("resourceClaimName", "resourceClaimTemplateName"), here)
        yield from name_errors(f"{here}.name", claim.get("name"), dns_label_problems)
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            yield from _optional_name(claim, field, here)


def _duplicate_errors(items: Sequence[Json], path: str) -> Errors:
    seen: set[str] = set()
    for i, item in enumerate(items):
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{path}[{i}]", {"name": name})
        seen.add(name)


def _optional_name(
    spec: Json, field: str, path: str, problems: Callable[[str], list[str]] = subdomain_problems
) -> Errors:
    if spec.get(field):
        yield from (invalid(child(path, field), spec[field], text) for text in problems(spec[field]))


def _common_errors(spec: Json, path: str, count: str) -> Errors:
    """Errors of fields that groups and templates of groups of all kinds share."""
    yield from policy_errors(spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy", count)
    if spec.get("schedulingConstraints") is not None:
        yield from topology_errors(spec["schedulingConstraints"], f"{path}.schedulingConstraints")
    if spec.get("resourceClaims"):
        yield from claims_errors(spec["resourceClaims"], f"{path}.resourceClaims")
    if spec.get("disruptionMode") is not None:
        yield from union_errors(spec["disruptionMode"], ("single", "all"), f"{path}.disruptionMode")
    yield from _optional_name(spec, "priorityClassName", path)
    if (spec.get("priority") or 0) > MAX_PRIORITY:
        text = f"must be less than or equal to {MAX_PRIORITY}"
        yield invalid(f"{path}.priority", spec["priority"], text)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        yield not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION)


def fixed_errors(old: Json, new: Json, fields: Sequence[str], path: str) -> Errors:
    """Fields that stay as they were created."""
    for field in fields:
        before, after = (None if one.get(field) in ("", []) else one.get(field) for one in (old, new))
        if before != after:
            yield invalid(child(path, field), None, IMMUTABLE)


def policy_update_errors(old: Json, new: Json, path: str) -> Errors:
    """Which policy a group has stays; how many of a gang are needed may change."""
    before, after = (one.get("schedulingPolicy") or {} for one in (old, new))
    if before.get("basic") != after.get("basic"):
        yield invalid(f"{path}.basic", None, IMMUTABLE)
    yield from presence_errors(before, after, "gang", path)


def presence_errors(old: Json, new: Json, field: str, path: str) -> Errors:
    """Errors if a field is set that was not before, or the reverse."""
    before, after = old.get(field), new.get(field)
    if before is None and after is not None:
        yield invalid(child(path, field), None, _SET)
    elif before is not None and after is None:
        yield invalid(child(path, field), None, _CLEARED)


# PodGroup and CompositePodGroup


def pod_group_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_optional_name(spec, "parentCompositePodGroupName", "spec")]
    if spec.get("parentCompositePodGroupName") and spec.get("workloadRef") is None:
        text = "must be set when parentCompositePodGroupName is set"
        errors.append(required("spec.workloadRef", text))
    errors += _reference_errors(spec)
    return [*errors, *_common_errors(spec, "spec", "minCount")]


def composite_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_optional_name(spec, "parentCompositePodGroupName", "spec")]
    if spec.get("workloadRef") is None:
        errors.append(required("spec.workloadRef"))
    errors += _reference_errors(spec)
    return [*errors, *_common_errors(spec, "spec", "minGroupCount")]


def _reference_errors(spec: Json) -> Errors:
    reference = spec.get("workloadRef")
    if reference is not None:
        path = "spec.workloadRef"
        yield from name_errors(f"{path}.workloadName", reference.get("workloadName"), subdomain_problems)
        yield from name_errors(f"{path}.templateName", reference.get("templateName"), dns_label_problems)


_FIXED: Final = ("parentCompositePodGroupName", "workloadRef", *_FIXED_IN_TEMPLATE)


def pod_group_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = [*fixed_errors(before, after, _FIXED, "spec")]
    return [*errors, *policy_update_errors(before, after, "spec.schedulingPolicy")]


def composite_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [*fixed_errors(before, after, (*_FIXED, "schedulingPolicy"), "spec")]


def group_status_errors(old: Json, new: Json) -> list[FieldError]:
    status, path = new.get("status") or {}, "status.resourceClaimStatuses"
    errors = [*conditions_errors(status.get("conditions") or (), "status.conditions")]
    claims = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    statuses: Sequence[Json] = status.get("resourceClaimStatuses") or ()
    if len(statuses) > MAX_CLAIMS:
        errors.append(too_many(path, len(statuses), MAX_CLAIMS))
    errors += _duplicate_errors(statuses, path)
    for i, one in enumerate(statuses):
        if one.get("name") not in claims:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{path}[{i}].name", one.get("name") or "", text))
        errors += _optional_name(one, "resourceClaimName", f"{path}[{i}]")
    return errors


# Workload


def workload_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("controllerRef") is not None:
        errors += _controller_errors(spec["controllerRef"])
    given = {field: spec.get(field) or None for field in (_TEMPLATES, _COMPOSITES)}
    errors += union_errors(given, (_TEMPLATES, _COMPOSITES), "spec")
    errors += _template_lists_errors(spec, "spec")
    errors += _name_clash_errors(spec, "spec", {one.get("name") for one in spec.get(_TEMPLATES) or ()})
    for i, composite in enumerate(spec.get(_COMPOSITES) or ()):
        if _depth(composite) > _MAX_DEPTH - 1:
            text = f"maximum template hierarchy depth is {_MAX_DEPTH}"
            errors.append(invalid(f"spec.{_COMPOSITES}[{i}]", composite.get(_COMPOSITES), text))
    return [*errors, *_priority_errors(spec), *_childless_errors(spec, "spec")]


def _controller_errors(reference: Json) -> Errors:
    path = "spec.controllerRef"
    yield from _optional_name(reference, "apiGroup", path)
    for field in ("kind", "name"):
        yield from name_errors(f"{path}.{field}", reference.get(field), path_segment_problems)


def _template_lists_errors(parent: Json, path: str) -> Errors:
    for field, count in ((_TEMPLATES, "minCount"), (_COMPOSITES, "minGroupCount")):
        templates, here = parent.get(field) or (), child(path, field)
        if len(templates) > _MAX_TEMPLATES:
            yield too_many(here, len(templates), _MAX_TEMPLATES)
            continue
        yield from _duplicate_errors(templates, here)
        for i, template in enumerate(templates):
            yield from name_errors(f"{here}[{i}].name", template.get("name"), dns_label_problems)
            yield from _common_errors(template, f"{here}[{i}]", count)
            if field == _COMPOSITES:
                yield from _template_lists_errors(template, f"{here}[{i}]")


def _name_clash_errors(parent: Json, path: str, seen: set[Any]) -> Errors:
    """Names of templates are unique in the whole workload; those within one list are checked with it."""
    composites: Sequence[Json] = parent.get(_COMPOSITES) or ()
    here = child(path, _COMPOSITES)
    for i, composite in enumerate(composites):
        if composite.get("name") in seen:
            yield duplicate(f"{here}[{i}].name", composite.get("name"))
    seen |= {composite.get("name") for composite in composites}
    for i, composite in enumerate(composites):
        templates: Sequence[Json] = composite.get(_TEMPLATES) or ()
        for j, template in enumerate(templates):
            if template.get("name") in seen:
                yield duplicate(f"{here}[{i}].{_TEMPLATES}[{j}].name", template.get("name"))
        seen |= {template.get("name") for template in templates}
        yield from _name_clash_errors(composite, f"{here}[{i}]", seen)


def _depth(composite: Json) -> int:
    return 1 + max(map(_depth, composite.get(_COMPOSITES) or ()), default=0)


def _priority_errors(spec: Json) -> Errors:
    """All templates of a workload have one priority."""
    for field, text in (
        (_TEMPLATES, "detected multiple priority configurations"),
        (
            _COMPOSITES,
            "all priority and priorityClassName values must be identical, detected multiple values",
        ),
    ):
        found = {
            (one.get("priorityClassName") or "", one.get("priority"))
            for one in _all_templates(spec.get(field) or ())
        }
        if len(found) > 1:
            yield invalid("spec", None, text)


def _all_templates(templates: Sequence[Json]) -> Iterator[Json]:
    for template in templates:
        yield template
        yield from _all_templates(template.get(_TEMPLATES) or ())
        yield from _all_templates(template.get(_COMPOSITES) or ())


def _childless_errors(parent: Json, path: str) -> Errors:
    for i, composite in enumerate(parent.get(_COMPOSITES) or ()):
        here = f"{child(path, _COMPOSITES)}[{i}]"
        if not composite.get(_TEMPLATES) and not composite.get(_COMPOSITES):
            text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield invalid(here, composite.get("name") or "", text)
        yield from _childless_errors(composite, here)


def workload_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = [*fixed_errors(before, after, ("controllerRef",), "spec")]
    return [*errors, *_lists_update_errors(before, after, "spec")]


def _lists_update_errors(old: Json, new: Json, path: str) -> Errors:
    for field in (_TEMPLATES, _COMPOSITES):
        here = child(path, field)
        before = {one.get("name"): one for one in old.get(field) or ()}
        after: Sequence[Json] = new.get(field) or ()
        for i, template in enumerate(after):
            known = before.get(template.get("name"))
            if known is None:
                yield forbidden(f"{here}[{i}]", "item may not be added")
            else:
                yield from _template_update_errors(known, template, f"{here}[{i}]")
        kept = {one.get("name") for one in after}
        yield from (forbidden(here, "item may not be removed") for name in before if name not in kept)


def _template_update_errors(old: Json, new: Json, path: str) -> Errors:
    yield from policy_update_errors(old, new, f"{path}.schedulingPolicy")
    yield from fixed_errors(old, new, _FIXED_IN_TEMPLATE, path)
    yield from _lists_update_errors(old, new, path)


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.POD_GROUPS: pod_group_errors,
    catalogue.COMPOSITE_POD_GROUPS: composite_errors,
    catalogue.WORKLOADS: workload_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.POD_GROUPS: pod_group_update_errors,
    catalogue.COMPOSITE_POD_GROUPS: composite_update_errors,
    catalogue.WORKLOADS: workload_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.POD_GROUPS: group_status_errors,
    catalogue.COMPOSITE_POD_GROUPS: group_status_errors,
}
