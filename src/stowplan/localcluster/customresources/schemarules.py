"""Validation of schemas themselves: whether one is structural, and what may stand in it.

The rules and messages are those of the Kubernetes API. They look at the schema as it was written (JSON).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from stowplan.api.fielderrors import EnumText, FieldError, Kind, forbidden, invalid, not_supported, required
from stowplan.api.requests import Json
from stowplan.gocompat import regexps
from stowplan.localcluster.customresources.defaulting import prune
from stowplan.localcluster.customresources.structural import META_FIELDS, StructuralSchema
from stowplan.localcluster.customresources.validation import embedded_errors, ordered, schema_errors

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_ALLOWED_AT_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_NOT_SUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ROOT, _ITEM, _FIELD = "root", "item", "field"
_EMPTY_TYPE: Final = {
    _ROOT: "must not be empty at the root",
    _ITEM: "must not be empty for specified array items",
    _FIELD: "must not be empty for specified object fields",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_INT: Final = "x-kubernetes-int-or-string"


def schema_rule_errors(raw: Json, path: str, *, has_status: bool) -> list[FieldError]:
    """Errors of the schema of a version. `has_status`: the version has a status subresource."""
    errors = [*_root_errors(raw, path, has_status)]
    if not _unsupported(raw):
        structural = sorted({*_structural_errors(raw, path, _ROOT), *_incomplete(raw, raw, path, path)})
        errors += structural
        if not structural:
            errors += _default_errors(raw, path)
    errors += _property_errors(raw, path, _Place(is_root=True))
    return errors


def _root_errors(raw: Json, path: str, has_status: bool) -> Iterator[FieldError]:
    if has_status:
        for field, value in raw.items():
            if value in (None, "", False, [], {}):
                continue
            if field == "type":
                if value != "object":
                    detail = (
                        'only "object" is allowed as the type at the root of the schema if the status '
                        "subresource is enabled"
                    )
                    yield invalid(f"{path}.type", value, detail)
                    break
            elif field not in _ALLOWED_AT_ROOT:
                listed = " ".join(_ALLOWED_AT_ROOT.values())
                detail = (
                    f"only [{listed}] fields are allowed at the root of the schema if the status subresource "
                    "is enabled"
                )
                yield invalid(path, ordered(raw), detail)
                break
    if raw.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def parts_of(raw: Json, *, also_values: bool = True) -> Iterator[tuple[str, Json]]:
    """The schemas within a schema, with their places in it; without `also_values` those of fields only."""
    for name, part in (raw.get("properties") or {}).items():
        yield f"properties[{name}]", part
    for field in ("items", "additionalProperties"):
        if isinstance(raw.get(field), dict):
            yield field, raw[field]
    if not also_values:
        return
    for field in ("allOf", "anyOf", "oneOf"):
        for i, part in enumerate(raw.get(field) or ()):
            yield f"{field}[{i}]", part
    if isinstance(raw.get("not"), dict):
        yield "not", raw["not"]


def walk(raw: Json) -> Iterator[Json]:
    """A schema and all those within it."""
    waiting = [raw]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += [inner for _, inner in parts_of(part)]


_NEVER_STRUCTURAL: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)


def _unsupported(raw: Json) -> bool:
    """True if it has a part that no structural schema can have; the other rules for properties report
    that."""
    for part in walk(raw):
        if isinstance(part.get("items"), list) or part.get("x-kubernetes-preserve-unknown-fields") is False:
            return True
        if not part.keys().isdisjoint(_NEVER_STRUCTURAL) and any(map(part.get, _NEVER_STRUCTURAL)):
            return True
    return False


def _structural_errors(raw: Json, path: str, level: str) -> Iterator[FieldError]:
    type_ = raw.get("type") or ""
    items, additional = raw.get("items"), raw.get("additionalProperties")
    if type_ == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structural_errors(items, f"{path}.items", _ITEM)
    for name, part in (raw.get("properties") or {}).items():
        yield from _structural_errors(part, f"{path}.properties[{name}]", _FIELD)
    if additional is not None:
        if level == _ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _structural_errors(additional, f"{path}.additionalProperties", _FIELD)
    yield from _extension_errors(raw, path)
    yield from _value_errors(
        raw,
        path,
        skip_any=_plain(raw.get("anyOf")) == _INT_OR_STRING,
        skip_all=_begins_with_int_or_string(raw),
    )
    yield from _type_errors(raw, path, level)
    yield from _metadata_errors(raw, path, level)


def _plain(parts: Any) -> Any:
    return [{key: value for key, value in part.items() if value} for part in parts or ()]


def _begins_with_int_or_string(raw: Json) -> bool:
    every = raw.get("allOf") or []
    return bool(every) and _plain(every[0].get("anyOf")) == _INT_OR_STRING


def _extension_errors(raw: Json, path: str) -> Iterator[FieldError]:
    if raw.get(_INT):
        for field in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if raw.get(field):
                yield invalid(f"{path}.{field}", True, f"must be false if {_INT} is true")


def _type_errors(raw: Json, path: str, level: str) -> Iterator[FieldError]:
    type_, embedded = raw.get("type") or "", raw.get("x-kubernetes-embedded-resource")
    preserves = raw.get("x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)
    elif not type_ and not raw.get(_INT) and not preserves:
        yield required(f"{path}.type", _EMPTY_TYPE[level])
    if embedded and raw.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if level == _ROOT and type_ and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")
    if embedded and not preserves and not raw.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)


def _metadata_errors(raw: Json, path: str, level: str) -> Iterator[FieldError]:
    properties: Mapping[str, Json] = raw.get("properties") or {}
    is_object = level == _ROOT or raw.get("x-kubernetes-embedded-resource")
    for field in ("kind", "apiVersion"):
        if is_object and field in properties and properties[field].get("type") != "string":
            yield invalid(
                f"{path}.properties[{field}].type", properties[field].get("type") or "", "must be string"
            )
    metadata = properties.get("metadata")
    if metadata is None:
        return
    here = f"{path}.properties[metadata]"
    if is_object and metadata.get("type") != "object":
        yield invalid(f"{here}.type", metadata.get("type") or "", "must be object")
    if level == _ROOT:
        rest = {
            field: value
            for field, value in metadata.items()
            if value not in (None, "", False, [], {}) and field not in ("type", "default")
        }
        if rest.keys() == {"properties"} and rest["properties"].keys() <= {"name", "generateName"}:
            rest = {}
        if rest:
            detail = (
                "must not specify anything other than name and generateName, but metadata is implicitly "
                "specified"
            )
            yield forbidden(here, detail)


def _value_errors(
    raw: Json, path: str, *, skip_any: bool = False, skip_all: bool = False
) -> Iterator[FieldError]:
    """Errors of the parts that only validate values."""
    if not skip_any:
        for i, part in enumerate(raw.get("anyOf") or ()):
            yield from _nested_errors(part, f"{path}.anyOf[{i}]")
    for i, part in enumerate(raw.get("allOf") or ()):
        yield from _nested_errors(part, f"{path}.allOf[{i}]", skip_any=skip_all and i == 0)
    for i, part in enumerate(raw.get("oneOf") or ()):
        yield from _nested_errors(part, f"{path}.oneOf[{i}]")
    if isinstance(raw.get("not"), dict):
        yield from _nested_errors(raw["not"], f"{path}.not")
    pattern = raw.get("pattern")
    if pattern:
        try:
            regexps.compile(pattern)
        except regexps.RegexpError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, detail)


_NESTED: Final = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    (_INT, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def _nested_errors(raw: Json, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    yield from _value_errors(raw, path, skip_any=skip_any)
    if isinstance(raw.get("items"), dict):
        yield from _nested_errors(raw["items"], f"{path}.items")
    properties: Mapping[str, Json] = raw.get("properties") or {}
    for name, part in properties.items():
        yield from _nested_errors(part, f"{path}.properties[{name}]")
    if raw.get("type"):
        yield forbidden(f"{path}.type", "must be empty to be structural")
    if raw.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for field, detail in _NESTED:
        if raw.get(field) not in (None, "", False, []):
            yield forbidden(f"{path}.{field}", detail)
    if "metadata" in properties:
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _incomplete(values: Json, schema: Json | None, path: str, values_path: str) -> Iterator[FieldError]:
    """Fields that are validated somewhere in a logical part, but specified nowhere."""
    if schema is None:
        yield required(path, f"because it is defined in {values_path}")
        return
    for place, part in parts_of(values):
        if place.partition("[")[0] in ("allOf", "anyOf", "oneOf", "not"):
            yield from _nested_incomplete(part, schema, path, f"{values_path}.{place}")


def _nested_incomplete(values: Json, schema: Json, path: str, values_path: str) -> Iterator[FieldError]:
    yield from _incomplete(values, schema, path, values_path)
    if isinstance(values.get("items"), dict):
        items = schema.get("items")
        if isinstance(items, dict):
            yield from _nested_incomplete(values["items"], items, f"{path}.items", f"{values_path}.items")
        else:
            yield required(f"{path}.items", f"because it is defined in {values_path}.items")
    known: Mapping[str, Json] = schema.get("properties") or {}
    for name, part in (values.get("properties") or {}).items():
        here, there = f"{path}.properties[{name}]", f"{values_path}.properties[{name}]"
        if name in known:
            yield from _nested_incomplete(part, known[name], here, there)
        else:
            yield required(here, f"because it is defined in {there}")


def _default_errors(raw: Json, path: str) -> Iterator[FieldError]:
    """Defaults that the schema itself would not accept."""
    if not any(part.get("default") is not None for part in walk(raw)):
        return
    waiting = [(raw, path, True)]
    while waiting:
        part, here, is_root = waiting.pop()
        default = part.get("default")
        if default is not None:
            yield from _one_default_errors(StructuralSchema(part), default, f"{here}.default")
        is_object = is_root or part.get("x-kubernetes-embedded-resource")
        for place, inner in parts_of(part, also_values=False):
            if place == "additionalProperties":
                continue
            if not (
                is_object and place in ("properties[metadata]", "properties[kind]", "properties[apiVersion]")
            ):
                waiting.append((inner, f"{here}.{place}", False))


def _one_default_errors(schema: StructuralSchema, default: Any, path: str) -> Iterator[FieldError]:
    pruned = _copied(default)
    if prune(schema, pruned, is_resource=schema.embedded):
        yield invalid(path, ordered(default), "must not have unknown fields")
    errors = [*embedded_errors(schema, default, path)] or schema_errors(schema, default, path)
    yield from errors


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


class _Place:
    """Where a schema stands: at the root, in the metadata of an object, where no default may be set."""

    __slots__ = ("in_meta", "is_root", "no_defaults")

    def __init__(self, *, is_root: bool = False, in_meta: bool = False, no_defaults: str = "") -> None:
        self.is_root, self.in_meta, self.no_defaults = is_root, in_meta, no_defaults

    def below(self, raw: Json, place: str) -> "_Place":
        name = place[11:-1] if place.startswith("properties[") else ""
        in_meta, no_defaults = self.in_meta, self.no_defaults
        if place == "additionalProperties" and in_meta:
            no_defaults = "inside additionalProperties applying to object metadata"
        if name in META_FIELDS and (self.is_root or raw.get("x-kubernetes-embedded-resource")):
            in_meta = True
            if self.is_root:
                no_defaults = f"in top-level {name}"
        return _Place(in_meta=in_meta, no_defaults=no_defaults)


def _property_errors(raw: Json, path: str, place: _Place) -> Iterator[FieldError]:
    """Errors of the properties of schemas, in this one and those within it."""
    yield from _standard_errors(raw, path, place)
    if raw.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    additional = raw.get("additionalProperties")
    if additional is not None and additional is not True and raw.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    for where, part in parts_of(raw):
        yield from _property_errors(part, f"{path}.{where}", place.below(raw, where))
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _map_type_errors(raw, path)
    yield from _list_type_errors(raw, path)
    yield from _rule_errors(raw.get("x-kubernetes-validations") or (), f"{path}.x-kubernetes-validations")


def _standard_errors(raw: Json, path: str, place: _Place) -> Iterator[FieldError]:
    type_ = raw.get("type")
    if type_ and type_ not in _TYPES:
        yield not_supported(f"{path}.type", type_, _TYPES)
    if raw.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for field in _NOT_SUPPORTED:
        if raw.get(field) not in (None, "", {}):
            yield forbidden(f"{path}.{field}", f"{field} is not supported")
    if type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(raw.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and raw.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _needs_type(raw: Json, path: str, wanted: str, field: str) -> Iterator[FieldError]:
    type_ = raw.get("type") or ""
    if type_ != wanted:
        detail = f"must be {wanted} if {field} is specified"
        yield invalid(f"{path}.type", type_, detail) if type_ else required(f"{path}.type", detail)


def _map_type_errors(raw: Json, path: str) -> Iterator[FieldError]:
    map_type = raw.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _needs_type(raw, path, "object", "x-kubernetes-map-type")
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _list_type_errors(raw: Json, path: str) -> Iterator[FieldError]:
    list_type, keys = raw.get("x-kubernetes-list-type"), raw.get("x-kubernetes-list-map-keys") or []
    here = f"{path}.x-kubernetes-list-type"
    if list_type is not None:
        wrong = [*_needs_type(raw, path, "array", "x-kubernetes-list-type")]
        yield from wrong or _set_errors(raw, path)
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(here, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(here, detail) if list_type is None else invalid(here, list_type, detail)
    if list_type == "map":
        yield from _list_map_errors(raw, keys, path)
    if list_type in ("map", "set") and isinstance(raw.get("items"), dict):
        yield from _item_errors(raw["items"], list_type, keys, f"{path}.items")


def _set_errors(raw: Json, path: str) -> Iterator[FieldError]:
    items = raw.get("items")
    if raw["x-kubernetes-list-type"] != "set" or not isinstance(items, dict):
        return
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in (None, "atomic"):
        yield invalid(f"{path}.items.x-kubernetes-list-type", inner, detail)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", inner, detail)


def _list_map_errors(raw: Json, keys: list[str], path: str) -> Iterator[FieldError]:
    items, here = raw.get("items"), f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(here, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    type_ = items.get("type") or ""
    if type_ != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", type_, detail)
        return
    known: Mapping[str, Json] = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys:
        if key not in known:
            yield invalid(here, keys, "entries must all be names of item properties")
        elif known[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", type_, detail)
        if key in seen:
            yield invalid(here, keys, "must not contain duplicate entries")
        seen.add(key)


def _item_errors(items: Json, list_type: str, keys: Iterable[str], path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type != "map":
        return
    known: Mapping[str, Json] = items.get("properties") or {}
    because = "this property is in x-kubernetes-list-map-keys, so it"
    for key in keys:
        if key not in known:
            continue
        here = f"{path}.properties[{key}]"
        if key not in (items.get("required") or ()) and known[key].get("default") is None:
            yield required(f"{here}.default", f"{because} must have a default or be a required property")
        if known[key].get("nullable"):
            yield forbidden(f"{here}.nullable", f"{because} cannot be nullable")


def _rule_errors(rules: Iterable[Json], path: str) -> Iterator[FieldError]:
    """Errors of CEL rules that show without evaluating them."""
    for i, rule in enumerate(rules):
        here = f"{path}[{i}]"
        text, message = rule.get("rule") or "", rule.get("message") or ""
        expression, field_path = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
        if not text.strip():
            yield required(f"{here}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{here}.message", message, "must be non-empty if specified")
        elif re.search(r"[\n\r]", message.strip()):
            yield invalid(f"{here}.message", message, "must not contain line breaks")
        elif re.search(r"[\n\r]", text.strip()) and not message.strip():
            yield required(f"{here}.message", "message must be specified if rule contains line breaks")
        if expression and not expression.strip():
            yield required(f"{here}.messageExpression", "messageExpression must be non-empty if specified")
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield FieldError(
                f"{here}.reason",
                Kind.NOT_SUPPORTED,
                EnumText(reason),
                "supported values: " + ", ".join(f'"{one}"' for one in _REASONS),
            )
        if field_path and not field_path.strip():
            yield invalid(f"{here}.fieldPath", field_path, "must be non-empty if specified")
        if re.search(r"[\n\r]", field_path):
            yield invalid(f"{here}.fieldPath", field_path, "must not contain line breaks")
