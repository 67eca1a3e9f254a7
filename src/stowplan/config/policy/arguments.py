"""The arguments of predicates and priorities, as arguments of the plugins that they became."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.config.fields import Fields, refuse
from stowplan.plugins.args.resource_spec import ResourceSpec
from stowplan.plugins.args.shape import MAX_SHAPE_SCORE

PluginData = dict[str, Any]
"""Arguments of a plugin as plain data; lists are joined where several names are one plugin."""

Argument = Callable[[Fields], PluginData]


def _labels(fields: Fields) -> list[str]:
    labels = list(fields.texts("labels"))
    if not labels:
        refuse(fields.at("labels"), "missing, expected at least one label")
    return labels


def _label(fields: Fields) -> list[str]:
    label = fields.text("label")
    if not label:
        refuse(fields.at("label"), "missing, expected a label")
    return [label]


def _service_affinity(fields: Fields) -> PluginData:
    return {"affinityLabels": _labels(fields)}


def _labels_presence(fields: Fields) -> PluginData:
    name = "presentLabels" if fields.flag("presence") else "absentLabels"
    return {name: _labels(fields)}


def _service_anti_affinity(fields: Fields) -> PluginData:
    return {"antiAffinityLabelsPreference": _label(fields)}


def _label_preference(fields: Fields) -> PluginData:
    name = "presentLabelsPreference" if fields.flag("presence") else "absentLabelsPreference"
    return {name: _label(fields)}


def _ratio(fields: Fields) -> PluginData:
    points = fields.objects("shape")
    if not points:
        refuse(fields.at("shape"), "missing, expected at least one point")
    shape: list[PluginData] = []
    for point in points:
        utilization = point.number("utilization", 0, 100) or 0
        if shape and utilization <= shape[-1]["utilization"]:
            refuse(point.at("utilization"), f"{utilization} does not come after {shape[-1]['utilization']}")
        shape.append({"utilization": utilization, "score": point.number("score", 0, MAX_SHAPE_SCORE) or 0})
        point.done("a point")
    args: PluginData = {"shape": shape}
    resources = [_resource(one) for one in fields.objects("resources") or ()]
    names = [one.name for one in resources]
    for index, name in enumerate(names):
        if name in names[:index]:
            refuse(f"{fields.at('resources')}[{index}].name", f"{name} is there already")
    if resources:
        args["resources"] = [{"name": one.name, "weight": one.weight} for one in resources]
    return args


def _resource(fields: Fields) -> ResourceSpec:
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
    "requestedToCapacityRatioArguments": _ratio,
}
