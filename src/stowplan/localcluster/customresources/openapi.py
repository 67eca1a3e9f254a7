"""The schemas of custom resources in the OpenAPI documents, for `kubectl explain` and other clients."""

from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.localcluster.customresources.versions import ServedVersion

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_API_VERSION: Final = {
    "type": "string",
    "description": "APIVersion defines the group and version of the kind, such as apps/v1.",
}
_KIND: Final = {"type": "string", "description": "The kind of this object, in CamelCase."}
_IN_SECOND: Final = (
    "type",
    "description",
    "format",
    "required",
    "enum",
    "pattern",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-group-version-kind",
    "$ref",
)
_LIMITS: Final = (
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
)
"""Rules for values; a limit of 0 is one."""


def definition_name(version: ServedVersion) -> str:
    """Name of the schema: the group backwards, the version, the kind."""
    resource = version.resource
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def document_schema(version: ServedVersion, *, third: bool) -> Json:
    """The schema of a version's objects, as version 3 of OpenAPI has it or as version 2 can."""
    resource = version.resource
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    if not third and version.schema.preserve:
        return {"type": "object", "x-kubernetes-group-version-kind": [kind]}
    shown: Json = _embedded(version.schema.raw, third)
    properties = {**shown.get("properties", {}), **_object_properties(third)}
    shown = {**shown, "properties": properties, "x-kubernetes-group-version-kind": [kind]}
    fields = [{"fieldPath": path.removeprefix(".")} for path in version.selectable]
    if fields and third:
        shown["x-kubernetes-selectable-fields"] = fields
    return shown if third else _second(shown)


def _object_properties(third: bool) -> Json:
    reference = {"$ref": ("#/components/schemas/" if third else "#/definitions/") + _OBJECT_META}
    description = "Standard object's metadata."
    metadata = {"allOf": [reference], "default": {}} if third else reference
    return {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": {**metadata, "description": description}}


def _embedded(raw: Any, third: bool) -> Any:
    """The schema with the fields that every object has, in objects that are part of others."""
    if not isinstance(raw, dict):
        return raw
    shown = dict(raw)
    if raw.get("properties"):
        shown["properties"] = {name: _embedded(part, third) for name, part in raw["properties"].items()}
    for field in ("items", "additionalProperties"):
        if isinstance(raw.get(field), dict):
            shown[field] = _embedded(raw[field], third)
    if raw.get("x-kubernetes-embedded-resource") and (
        third or not raw.get("x-kubernetes-preserve-unknown-fields")
    ):
        shown["properties"] = {**shown.get("properties", {}), **_object_properties(third)}
        required = raw.get("required") or []
        shown["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return shown


def _second(raw: Json) -> Json:
    """The part of a schema that version 2 can say; what may be of several types, or null, has none there."""
    loose = raw.get("nullable") or raw.get("x-kubernetes-int-or-string")
    if raw.get("x-kubernetes-preserve-unknown-fields"):
        return {"description": raw["description"]} if raw.get("description") else {}
    shown: Json = {field: raw[field] for field in _IN_SECOND if raw.get(field)}
    shown.update((field, raw[field]) for field in _LIMITS if field in raw)
    if loose:
        shown.pop("type", None)
        shown.pop("format", None)
        return shown
    if raw.get("properties"):
        shown["properties"] = {name: _second(part) for name, part in raw["properties"].items()}
    for field in ("items", "additionalProperties"):
        if isinstance(raw.get(field), dict):
            shown[field] = _second(raw[field])
    return shown
