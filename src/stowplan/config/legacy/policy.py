"""Policy files: from their text to the predicates, priorities and extenders they name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.config.legacy.fields import LegacyFields, parse_document, refuse
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.jsontext import ObjectNode, Tree
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.plugins.legacy.names import PREDICATES, PRIORITIES, OldName
from stowplan.scheduler.plugins.noderesources.resource_allocation import MAX_SHAPE_SCORE, ResourceSpec

_MAX_WEIGHT: Final = 2**31 - 1
_EXTENDER_FIELDS: Final = (
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "nodeCacheCapable",
    "ignorable",
)
_TLS_FIELDS: Final = (
    "insecure",
    "serverName",
    "certFile",
    "keyFile",
    "caFile",
    "certData",
    "keyData",
    "caData",
)
_RESOURCE_FIELDS: Final = ("name", "ignoredByScheduler")
PluginArgsData = dict[str, Any]
"""Arguments of a plugin as plain data; lists are joined where several names are one plugin."""

Argument = Callable[[LegacyFields], PluginArgsData]


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A predicate or priority that a Policy names.

    `given` is the name in the file, which is free where an argument says what is meant.
    """

    entry: OldName
    where: str
    given: str
    weight: int = 0
    args: PluginArgsData = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """Content of a Policy. A list that is None is not given, which is not the same as an empty one."""

    predicates: tuple[PolicyEntry, ...] | None = None
    priorities: tuple[PolicyEntry, ...] | None = None
    extenders: tuple[Mapping[str, Any], ...] = ()
    hard_pod_affinity_weight: int | None = None
    check_all: bool = False


def read_policy(data: bytes) -> Policy:
    """Read a Policy. Raises ConfigError."""
    fields = LegacyFields(parse_document(data))
    _check_kind(fields)
    predicates = fields.objects("predicates")
    priorities = fields.objects("priorities")
    policy = Policy(
        None if predicates is None else _distinct([_predicate(one) for one in predicates]),
        None if priorities is None else _distinct([_priority(one) for one in priorities]),
        tuple(read_extender(tree, path) for path, tree in fields.elements("extenders") or ()),
        fields.number("hardPodAffinitySymmetricWeight", 0, 100) or None,
        fields.flag("alwaysCheckAllPredicates"),
    )
    fields.done("a Policy")
    _check_weights(policy.priorities or ())
    return policy


def _check_kind(fields: LegacyFields) -> None:
    kind, version = fields.text("kind"), fields.text("apiVersion")
    if kind != "Policy":
        refuse("kind", f"expected Policy, got {quote(kind)}" if kind else "missing, expected Policy")
    if version != "v1":
        refuse("apiVersion", f"expected v1, got {quote(version)}" if version else "missing, expected v1")


def _predicate(fields: LegacyFields) -> PolicyEntry:
    entry, given, args = _entry(fields, "predicate", PREDICATES, PREDICATE_ARGUMENTS)
    fields.done("a predicate")
    return PolicyEntry(entry, fields.path, given, args=args)


def _priority(fields: LegacyFields) -> PolicyEntry:
    entry, given, args = _entry(fields, "priority", PRIORITIES, PRIORITY_ARGUMENTS)
    weight = fields.number("weight", 1, _MAX_WEIGHT)
    if weight is None:
        refuse(fields.at("weight"), f"missing for {given}, expected a number from 1")
    fields.done("a priority")
    return PolicyEntry(entry, fields.path, given, weight, args)


def _entry(
    fields: LegacyFields, kind: str, known: Mapping[str, OldName], arguments: Mapping[str, Argument]
) -> tuple[OldName, str, PluginArgsData]:
    """Which predicate or priority is meant, how it is called, and the arguments of its plugin."""
    name = fields.text("name")
    if not name:
        refuse(fields.at("name"), f"missing, expected the name of a {kind}")
    argument = fields.object("argument")
    if argument is None:
        if name not in known:
            refuse(fields.at("name"), f"unknown {kind} {quote(name)}")
        entry = known[name]
        if entry.argument:
            refuse(fields.path, f"{name} needs an argument {entry.argument}")
        return entry, name, {}
    chosen = [one for one in arguments if argument.has(one)]
    if len(chosen) != 1:
        argument_names = ", ".join(arguments)
        if not chosen:
            argument.done(f"an argument, which is one of {argument_names}")
        refuse(argument.path, f"expected one of {argument_names}")
    [field_name] = chosen
    entry = next(one for one in known.values() if one.argument == field_name)
    if name in known and known[name] is not entry:
        takes = f"takes {known[name].argument}" if known[name].argument else "takes no argument"
        refuse(argument.at(field_name), f"{name} {takes}")
    value = argument.object(field_name)
    assert value is not None
    args = arguments[field_name](value)
    value.done(field_name)
    argument.done("an argument")
    return entry, name, args


def _distinct(found: Sequence[PolicyEntry]) -> tuple[PolicyEntry, ...]:
    """Names are unique; several free names can mean the same predicate or priority."""
    seen: dict[str, str] = {}
    for one in found:
        if one.given in seen:
            refuse(f"{one.where}.name", f"{one.given} is there already as {seen[one.given]}")
        seen[one.given] = one.where
    return tuple(found)


def _check_weights(priorities: Sequence[PolicyEntry]) -> None:
    """Priorities that become one plugin have one weight, and only some may be repeated."""
    first: dict[str, PolicyEntry] = {}
    for one in priorities:
        plugin = one.entry.meaning.uses[0].plugin
        earlier = first.setdefault(plugin, one)
        if earlier is one:
            continue
        names = f"{one.given} and {earlier.given}"
        if one.entry.argument not in ("labelPreference", "serviceAntiAffinity"):
            refuse(one.where, f"{names} are the same priority")
        if one.weight != earlier.weight:
            refuse(f"{one.where}.weight", f"{names} must have the same weight: they are one plugin, {plugin}")


def _labels(fields: LegacyFields) -> list[str]:
    labels = list(fields.texts("labels"))
    if not labels:
        refuse(fields.at("labels"), "missing, expected at least one label")
    return labels


def _label(fields: LegacyFields) -> list[str]:
    label = fields.text("label")
    if not label:
        refuse(fields.at("label"), "missing, expected a label")
    return [label]


def _service_affinity(fields: LegacyFields) -> PluginArgsData:
    return {"affinityLabels": _labels(fields)}


def _labels_presence(fields: LegacyFields) -> PluginArgsData:
    name = "presentLabels" if fields.flag("presence") else "absentLabels"
    return {name: _labels(fields)}


def _service_anti_affinity(fields: LegacyFields) -> PluginArgsData:
    return {"antiAffinityLabelsPreference": _label(fields)}


def _label_preference(fields: LegacyFields) -> PluginArgsData:
    name = "presentLabelsPreference" if fields.flag("presence") else "absentLabelsPreference"
    return {name: _label(fields)}


def _capacity_ratio(fields: LegacyFields) -> PluginArgsData:
    points = fields.objects("shape")
    if not points:
        refuse(fields.at("shape"), "missing, expected at least one point")
    shape: list[PluginArgsData] = []
    for point in points:
        utilization = point.number("utilization", 0, 100) or 0
        if shape and utilization <= shape[-1]["utilization"]:
            refuse(point.at("utilization"), f"{utilization} does not come after {shape[-1]['utilization']}")
        shape.append({"utilization": utilization, "score": point.number("score", 0, MAX_SHAPE_SCORE) or 0})
        point.done("a point")
    args: PluginArgsData = {"shape": shape}
    resources = [_resource(one) for one in fields.objects("resources") or ()]
    names = [one.name for one in resources]
    for index, name in enumerate(names):
        if name in names[:index]:
            refuse(f"{fields.at('resources')}[{index}].name", f"{name} is there already")
    if resources:
        args["resources"] = [{"name": one.name, "weight": one.weight} for one in resources]
    return args


def _resource(fields: LegacyFields) -> ResourceSpec:
    name = fields.text("name")
    if not name:
        refuse(fields.at("name"), "missing, expected the name of a resource")
    spec = ResourceSpec(name=name, weight=fields.number("weight", 0, 2**31 - 1) or 1)
    fields.done("a resource")
    return spec


PREDICATE_ARGUMENTS: Final[Mapping[str, Argument]] = {
    "serviceAffinity": _service_affinity,
    "labelsPresence": _labels_presence,
}
PRIORITY_ARGUMENTS: Final[Mapping[str, Argument]] = {
    "serviceAntiAffinity": _service_anti_affinity,
    "labelPreference": _label_preference,
    "requestedToCapacityRatioArguments": _capacity_ratio,
}


def read_extender(tree: Tree, path: str) -> dict[str, Any]:
    """An extender as in v1; its values are validated there. Raises ConfigError."""
    fields = LegacyFields(tree, path, any_case=True)
    extender = _given(fields, _EXTENDER_FIELDS)
    timeout = fields.number("httpTimeout")
    if timeout is not None:
        extender["httpTimeout"] = str(Duration(timeout))
    tls = fields.take("tlsConfig")
    if tls is not None:
        extender["tlsConfig"] = _object(tls, f"{path}.tlsConfig", _TLS_FIELDS, "a TLS configuration")
    resources = fields.elements("managedResources")
    if resources is not None:
        extender["managedResources"] = [
            _object(one, where, _RESOURCE_FIELDS, "a managed resource") for where, one in resources
        ]
    fields.done("an extender")
    return extender


def _object(tree: Tree, path: str, names: tuple[str, ...], what: str) -> dict[str, Any]:
    fields = LegacyFields(ObjectNode() if tree is None else tree, path, any_case=True)
    found = _given(fields, names)
    fields.done(what)
    return found


def _given(fields: LegacyFields, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields.data(name) for name in names if fields.has(name)}
