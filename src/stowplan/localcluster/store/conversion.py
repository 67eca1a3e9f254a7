"""Kinds that are served in two versions and stored in one.

Events of the core group are the events of events.k8s.io under older field names. HorizontalPodAutoscalers of
autoscaling/v1 know one metric, the CPU utilization; everything else that autoscaling/v2 has is kept in their
annotations. Both are stored in the newer form only, so objects written in one form can be read in both. So
are the versions of resource.k8s.io (`deviceversions`) and those of pod groups, which differ in their name
only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from stowplan.api.catalogue import (
    CORE_EVENTS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    HORIZONTAL_POD_AUTOSCALERS_V1,
    POD_GROUPS,
    POD_GROUPS_V1ALPHA3,
    WORKLOADS,
    WORKLOADS_V1ALPHA3,
    Resource,
)
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.customresources.versions import ServedVersion
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.goform import as_written
from stowplan.localcluster.store.deviceversions import OLDER_VERSIONS, form
from stowplan.localcluster.store.writer import WriteContext

if TYPE_CHECKING:
    from stowplan.localcluster.store.definitions import Definitions

_OLD_NAMES: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES: Final[Mapping[str, str]] = {old: new for new, old in _OLD_NAMES.items()}


def as_core(event: Json) -> Json:
    """An event in the older form."""
    shown = {_OLD_NAMES.get(field, field): value for field, value in event.items()}
    shown["apiVersion"] = CORE_EVENTS.api_version
    shown.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp"):
        shown.setdefault(field, None)
    return shown


def from_core(event: Json) -> Json:
    """An event of the older form in the newer one."""
    kept = {_NEW_NAMES.get(field, field): value for field, value in event.items() if value is not None}
    if "apiVersion" in kept:
        kept["apiVersion"] = EVENTS.api_version
    return kept


def selection_from_core(selection: Selection) -> Selection:
    """A selection that names fields of the older form, by the names they are stored under."""
    if not selection.fields:
        return selection
    return Selection(selection.labels, tuple(map(_term_from_core, selection.fields)))


def _term_from_core(term: FieldTerm) -> FieldTerm:
    head, dot, rest = term.path.partition(".")
    if head == "source" and not dot:
        return term._replace(path="reportingController")
    return term._replace(path=_NEW_NAMES.get(head, head) + dot + rest)


_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = _ANNOTATION + "metrics"
_CURRENT_METRICS: Final = _ANNOTATION + "current-metrics"
_CONDITIONS: Final = _ANNOTATION + "conditions"
_BEHAVIOR: Final = _ANNOTATION + "behavior"
_ROUND_TRIP: Final = frozenset(
    (
        _METRICS,
        _CURRENT_METRICS,
        _CONDITIONS,
        _BEHAVIOR,
        _ANNOTATION + "scale-down-tolerance",
        _ANNOTATION + "scale-up-tolerance",
    )
)
_DEFAULT_UTILIZATION: Final = 80

Paths = Sequence[tuple[str, tuple[str, ...]]]
_NAME: Final = ("metricName", ("metric", "name"))
_SOURCES: Final[Mapping[str, Paths]] = {
    "object": (
        ("target", ("describedObject",)),
        _NAME,
        ("targetValue", ("target", "value")),
        ("selector", ("metric", "selector")),
        ("averageValue", ("target", "averageValue")),
    ),
    "pods": (
        _NAME,
        ("targetAverageValue", ("target", "averageValue")),
        ("selector", ("metric", "selector")),
    ),
    "resource": (
        ("name", ("name",)),
        ("targetAverageUtilization", ("target", "averageUtilization")),
        ("targetAverageValue", ("target", "averageValue")),
    ),
    "containerResource": (
        ("name", ("name",)),
        ("targetAverageUtilization", ("target", "averageUtilization")),
        ("targetAverageValue", ("target", "averageValue")),
        ("container", ("container",)),
    ),
    "external": (
        _NAME,
        ("metricSelector", ("metric", "selector")),
        ("targetValue", ("target", "value")),
        ("targetAverageValue", ("target", "averageValue")),
    ),
}
"""The fields of a metric in the older form, in the order they are written in, and where they are now."""

_CURRENT: Final[Mapping[str, Paths]] = {
    "object": (
        ("target", ("describedObject",)),
        _NAME,
        ("currentValue", ("current", "value")),
        ("selector", ("metric", "selector")),
        ("averageValue", ("current", "averageValue")),
    ),
    "pods": (
        _NAME,
        ("currentAverageValue", ("current", "averageValue")),
        ("selector", ("metric", "selector")),
    ),
    "resource": (
        ("name", ("name",)),
        ("currentAverageUtilization", ("current", "averageUtilization")),
        ("currentAverageValue", ("current", "averageValue")),
    ),
    "containerResource": (
        ("name", ("name",)),
        ("currentAverageUtilization", ("current", "averageUtilization")),
        ("currentAverageValue", ("current", "averageValue")),
        ("container", ("container",)),
    ),
    "external": (
        _NAME,
        ("metricSelector", ("metric", "selector")),
        ("currentValue", ("current", "value")),
        ("currentAverageValue", ("current", "averageValue")),
    ),
}
_WRITTEN_ZERO: Final = frozenset(
    (
        ("object", "targetValue"),
        ("pods", "targetAverageValue"),
        ("object", "currentValue"),
        ("pods", "currentAverageValue"),
        ("resource", "currentAverageValue"),
        ("containerResource", "currentAverageValue"),
        ("external", "currentValue"),
    )
)
"""Quantities the older form cannot leave out."""

_TARGET_TYPES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "object": (("averageValue", "AverageValue"), ("value", "Value")),
    "pods": (("averageValue", "AverageValue"),),
    "resource": (("averageUtilization", "Utilization"), ("averageValue", "AverageValue")),
    "containerResource": (("averageUtilization", "Utilization"), ("averageValue", "AverageValue")),
    "external": (("value", "Value"), ("averageValue", "AverageValue")),
}


def as_v1_autoscaler(hpa: Json) -> Json:
    """An autoscaler of autoscaling/v2 as autoscaling/v1 shows it."""
    spec, status, metadata = hpa.get("spec") or {}, hpa.get("status") or {}, hpa["metadata"]
    metrics, current = spec.get("metrics") or (), status.get("currentMetrics") or ()
    annotations = _plain_annotations(metadata)
    others = [_older(metric, _SOURCES) for metric in metrics if _cpu_target(metric) is None]
    if others:
        annotations[_METRICS] = _text(others)
    if current:
        annotations[_CURRENT_METRICS] = _text([_older(metric, _CURRENT) for metric in current])
    if spec.get("behavior") is not None:
        annotations[_BEHAVIOR] = _text(_behavior_text(spec["behavior"]))
    if status.get("conditions"):
        order = ("type", "status", "lastTransitionTime", "reason", "message")
        conditions = [{key: each[key] for key in order if key in each} for each in status["conditions"]]
        annotations[_CONDITIONS] = _text(conditions)
    shown = {**hpa, "apiVersion": HORIZONTAL_POD_AUTOSCALERS_V1.api_version}
    shown["metadata"] = _with_annotations(metadata, annotations)
    targets = [target for target in map(_cpu_target, metrics) if target is not None]
    shown["spec"] = _renamed(spec, ("metrics", "behavior"), "targetCPUUtilizationPercentage", targets[:1])
    if status:
        used = [value for value in map(_cpu_current, current) if value is not None]
        dropped = ("currentMetrics", "conditions")
        shown["status"] = _renamed(status, dropped, "currentCPUUtilizationPercentage", used[-1:])
    return shown


def from_v1_autoscaler(hpa: Json) -> Json:
    """An autoscaler of autoscaling/v1, with what its annotations keep, as autoscaling/v2 has it."""
    metadata = hpa.get("metadata") or {}
    given = metadata.get("annotations") or {}
    kept = {**hpa, "metadata": _with_annotations(metadata, _plain_annotations(metadata))}
    if "apiVersion" in kept:
        kept["apiVersion"] = HORIZONTAL_POD_AUTOSCALERS.api_version
    spec = {**(hpa.get("spec") or {})}
    target = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_newer(metric, _SOURCES) for metric in _decoded(given, _METRICS)]
    if target is not None or not metrics:
        metrics.append(_cpu_metric(_DEFAULT_UTILIZATION if target is None else target))
    spec["metrics"] = metrics
    behavior = _decoded_behavior(given)
    if behavior:
        spec["behavior"] = behavior
    kept["spec"] = spec
    if "status" in hpa or _CURRENT_METRICS in given or _CONDITIONS in given:
        kept["status"] = _status_from_v1({**(hpa.get("status") or {})}, given)
    return kept


def _status_from_v1(status: Json, given: Mapping[str, str]) -> Json:
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        current = {"name": "cpu", "current": {"averageUtilization": used}}
        status["currentMetrics"] = [{"type": "Resource", "resource": current}]
    metrics = [_newer(metric, _CURRENT) for metric in _decoded(given, _CURRENT_METRICS)]
    if metrics:
        status["currentMetrics"] = metrics
    conditions = _decoded(given, _CONDITIONS)
    if conditions:
        status["conditions"] = conditions
    return status


def _cpu_metric(utilization: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_target(metric: Json) -> int | None:
    return _cpu_value(metric, "target")


def _cpu_current(metric: Json) -> int | None:
    return _cpu_value(metric, "current")


def _cpu_value(metric: Json, part: str) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    value: int | None = (resource.get(part) or {}).get("averageUtilization")
    return value


def _renamed(section: Json, dropped: Sequence[str], name: str, value: Sequence[int]) -> Json:
    shown = {field: content for field, content in section.items() if field not in dropped}
    return shown | {name: value[0]} if value else shown


def _older(metric: Json, table: Mapping[str, Paths]) -> Json:
    """A metric as the annotations of the older form have it."""
    shown: Json = {"type": metric.get("type", "")}
    for source, paths in table.items():
        content = metric.get(source)
        if content is None:
            continue
        fields: Json = {}
        for field, path in paths:
            value: Any = content
            for part in path:
                value = (value or {}).get(part)
            if value is not None:
                fields[field] = _reference(value) if field == "target" else value
            elif (source, field) in _WRITTEN_ZERO:
                fields[field] = "0"
        shown[source] = fields
    return shown


def _newer(metric: Json, table: Mapping[str, Paths]) -> Json:
    """A metric of an annotation in the newer form."""
    shown: Json = {"type": metric.get("type", "")}
    for source, paths in table.items():
        content = metric.get(source)
        if not isinstance(content, dict):
            continue
        fields: Json = {}
        for field, path in paths:
            value = content.get(field)
            zero_beside_average = field == "targetValue" and value == "0" and content.get("averageValue")
            if value is None or zero_beside_average:
                continue
            within = fields
            for part in path[:-1]:
                within = within.setdefault(part, {})
            within[path[-1]] = value
        if table is _SOURCES:
            target = fields.setdefault("target", {})
            types = _TARGET_TYPES[source]
            target["type"] = next((kind for name, kind in types if name in target), types[-1][1])
        shown[source] = fields
    return shown


def _reference(value: Json) -> Json:
    return {field: value[field] for field in ("kind", "name", "apiVersion") if field in value}


_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY: Final = ("type", "value", "periodSeconds")


def _behavior_text(behavior: Json) -> Json:
    """A behavior as its annotation has it: the fields under the names they have in Go, absent ones null."""
    shown: Json = {}
    for direction in ("scaleUp", "scaleDown"):
        rules = behavior.get(direction)
        written = None if rules is None else {_go(name): rules.get(name) for name in _RULES}
        if written is not None and written["Policies"] is not None:
            policies = written["Policies"]
            written["Policies"] = [{_go(name): each.get(name) for name in _POLICY} for each in policies]
        shown[_go(direction)] = written
    return shown


def _decoded_behavior(annotations: Mapping[str, str]) -> Json:
    found = _read(annotations, _BEHAVIOR)
    return _without_nulls(found) if isinstance(found, dict) else {}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_name(k): _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _go(name: str) -> str:
    return name[:1].upper() + name[1:]


def _json_name(name: str) -> str:
    return name[:1].lower() + name[1:]


def _decoded(annotations: Mapping[str, str], name: str) -> list[Json]:
    found = _read(annotations, name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _read(annotations: Mapping[str, str], name: str) -> Any:
    """Value of an annotation, None if it is missing or not JSON."""
    try:
        return msgspec.json.decode(annotations[name]) if name in annotations else None
    except msgspec.DecodeError:
        return None


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _plain_annotations(metadata: Json) -> dict[str, str]:
    """The annotations that are not there for the conversion."""
    return {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _ROUND_TRIP}


def _with_annotations(metadata: Json, annotations: dict[str, str]) -> Json:
    shown = {field: value for field, value in metadata.items() if field != "annotations"}
    return shown | {"annotations": annotations} if annotations else shown


class _Forms(NamedTuple):
    stored: Resource
    to_served: Callable[[Json], Json]
    to_stored: Callable[[Json], Json]
    selection: Callable[[Selection], Selection]


def _unchanged(value: Any) -> Any:
    return value


_CONVERTED: Final[Mapping[Resource, _Forms]] = {
    CORE_EVENTS: _Forms(EVENTS, as_core, from_core, selection_from_core),
    HORIZONTAL_POD_AUTOSCALERS_V1: _Forms(
        HORIZONTAL_POD_AUTOSCALERS, as_v1_autoscaler, from_v1_autoscaler, _unchanged
    ),
    **{served: _Forms(*forms, _unchanged) for served, forms in OLDER_VERSIONS.items()},
    POD_GROUPS_V1ALPHA3: _Forms(*form(POD_GROUPS_V1ALPHA3, POD_GROUPS), _unchanged),
    WORKLOADS_V1ALPHA3: _Forms(*form(WORKLOADS_V1ALPHA3, WORKLOADS), _unchanged),
}


_VERSIONS: Final[Mapping[Resource, Sequence[Resource]]] = {
    one: (forms.stored, *(served for served, each in _CONVERTED.items() if each.stored == forms.stored))
    for forms in _CONVERTED.values()
    for one in (forms.stored, *(served for served, each in _CONVERTED.items() if each.stored == forms.stored))
}


def stored_as(resource: Resource) -> Resource:
    """The resource that objects are stored as which are served as this one."""
    forms = _CONVERTED.get(resource)
    return resource if forms is None else forms.stored


def versions_of(resource: Resource, definitions: "Definitions") -> Sequence[Resource]:
    """The resource in all versions in which it is served, if there are several."""
    return definitions.versions_of(resource) if resource.defined else _VERSIONS.get(resource, ())


def in_version(obj: Json, resource: Resource, other: Resource, definitions: "Definitions") -> Json:
    """An object that is written as one resource, as another version of it shows it."""
    if other is resource:
        return obj
    return Conversion(other, definitions.version_of(other)).to_served(from_served(resource, obj))


def from_served(resource: Resource, obj: Json) -> Json:
    """An object written as one resource, in its stored form."""
    forms = _CONVERTED.get(resource)
    return obj if forms is None else forms.to_stored(obj)


class Conversion:
    """A resource as it is served, and the one its objects are stored as."""

    def __init__(self, resource: Resource, custom: ServedVersion | None = None) -> None:
        """`custom` is what is defined about a custom resource: each version shows objects in its own way."""
        to_served = _unchanged if custom is None else custom.shown
        forms = _CONVERTED.get(resource) or _Forms(resource, to_served, _unchanged, _unchanged)
        self.resource = resource
        self.stored = forms.stored
        self.is_converted = self.stored is not resource
        self.to_served = self._shown if self.is_converted else forms.to_served
        self._forms = forms
        self._type = the_schema().of_kind(resource.group, resource.version, resource.kind)
        self.to_stored = forms.to_stored
        self.selection = forms.selection

    def context(self, by: WriteContext) -> WriteContext:
        """The context of a request in this version."""
        return by._replace(served=self) if self.is_converted else by

    def _shown(self, obj: Json) -> Json:
        return as_written(self._type, self._forms.to_served(obj))


def served_error(resource: Resource, error: ApiError) -> ApiError:
    """An error about an object, in the words of the version it was asked for in."""
    forms = _CONVERTED.get(resource)
    if forms is None or forms.stored.group == resource.group:
        return error
    text = error.message
    for stored, served in ((forms.stored.kind, resource.kind), (forms.stored.plural, resource.plural)):
        old = f"{stored}.{forms.stored.group}"
        text = text.replace(f"{old} ", f"{served}.{resource.group} " if resource.group else f"{served} ")
    if error.details.get("group") == forms.stored.group:
        error.details["group"] = resource.group
        if not resource.group:
            del error.details["group"]
    error.message = text
    return error
