"""A version of a custom resource: what it does to objects that are written in it and read in it."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any, Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, invalid
from stowplan.api.names import label_key_problems
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apply.shapes import DEDUCED, ONE_VALUE, FieldShape, ListShape, MapShape, shape_of
from stowplan.localcluster.customresources.defaulting import (
    drop_stray_nulls,
    prune,
    prune_embedded,
    prune_metadata,
    set_defaults,
)
from stowplan.localcluster.customresources.definitions import deprecation_warning
from stowplan.localcluster.customresources.kept import fitting
from stowplan.localcluster.customresources.rules import rule_errors
from stowplan.localcluster.customresources.structural import ABSENT, META_FIELDS, StructuralSchema
from stowplan.localcluster.customresources.validation import (
    embedded_errors,
    list_errors,
    ordered,
    schema_errors,
    unchecked_rules_error,
)
from stowplan.localcluster.schema import the_schema

_numbers: Final = count(1)


class ObjectShape(FieldShape):
    """A map with fields; what the schema does not know is looked into as far as its values say."""

    is_map = True

    def __init__(self, schema: StructuralSchema, *, is_resource: bool = False) -> None:
        self._schema = schema
        self._is_resource = is_resource or schema.embedded
        self._children: dict[str, tuple[str, FieldShape]] = {}
        if is_resource:
            self.full_name = f"custom.{next(_numbers)}"

    def named(self, name: str) -> bool:
        return name in self._schema.properties or (self._is_resource and name in META_FIELDS)

    def child(self, name: str) -> tuple[str, FieldShape]:
        found = self._children.get(name)
        if found is None:
            found = self._children[name] = (f"f:{name}", self._shape(name))
        return found

    def _shape(self, name: str) -> FieldShape:
        if self._is_resource and name in META_FIELDS:
            return shape_of(the_schema().types["meta.v1.ObjectMeta"]) if name == "metadata" else ONE_VALUE
        part = self._schema.properties.get(name)
        return DEDUCED if part is None else shape_of_schema(part)


class KeyedListShape(ListShape):
    """A list whose elements have keys; a key that is left out has the schema's default."""

    def __init__(self, schema: StructuralSchema) -> None:
        items = schema.items
        super().__init__(schema.list_keys, ONE_VALUE if items is None else shape_of_schema(items))
        parts = {} if items is None else items.properties
        self._defaults = {
            key: parts[key].default
            for key in schema.list_keys
            if key in parts and parts[key].default is not ABSENT
        }

    def step(self, element: Any) -> str:
        if isinstance(element, dict):
            missing = {key: value for key, value in self._defaults.items() if key not in element}
            return super().step({**element, **missing} if missing else element)
        return super().step(element)


def shape_of_schema(schema: StructuralSchema) -> FieldShape:
    """The shape of the values of a schema."""
    if schema.type == "array":
        if schema.list_type == "map":
            return KeyedListShape(schema)
        return ListShape(("",), ONE_VALUE) if schema.list_type == "set" else ONE_VALUE
    if schema.map_type == "atomic":
        return ONE_VALUE
    if schema.type == "object" or schema.preserve:
        if schema.additional is not None and not schema.properties:
            return MapShape(shape_of_schema(schema.additional))
        return ObjectShape(schema) if schema.properties or schema.embedded else DEDUCED
    return ONE_VALUE


_MAX_INT32: Final = 2**31 - 1
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_GO_TYPES: Final = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


class ServedVersion:
    """One version of a definition: its schema, its subresources, how it is shown."""

    def __init__(self, definition: Json, version: Json, stored: StructuralSchema) -> None:
        spec = definition["spec"]
        accepted = definition["status"]["acceptedNames"]
        subresources = version.get("subresources") or {}
        self.definition = definition
        own = stored if version.get("storage") else schema_of(version)
        self.schema = stored if own.raw == stored.raw else own
        self.stored_schema = stored
        self.columns: Sequence[Json] = version.get("additionalPrinterColumns") or ()
        self.scale: Json | None = subresources.get("scale")
        self.selectable = tuple(field["jsonPath"] for field in version.get("selectableFields") or ())
        self.is_terminating = "deletionTimestamp" in definition["metadata"]
        self.list_kind: str = accepted.get("listKind", "")
        storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
        self.resource = Resource(
            spec["group"],
            version["name"],
            accepted["plural"],
            accepted["kind"],
            namespaced=spec["scope"] == "Namespaced",
            status=subresources.get("status") is not None,
            generation=True,
            blind_update=False,
            custom=True,
            defined=True,
            scaled=self.scale is not None,
            deprecation=deprecation_warning(spec, version),
            fields=tuple(path.removeprefix(".") for path in self.selectable),
            short_names=tuple(accepted.get("shortNames") or ()),
            categories=tuple(accepted.get("categories") or ()),
            singular=accepted.get("singular", ""),
            verbs=_VERBS,
            storage_version=f"{spec['group']}/{storage}",
            keeps_versions=is_converted_by_webhook(definition),
        )

    @cached_property
    def shape(self) -> ObjectShape:
        """How server-side apply looks into the objects."""
        return ObjectShape(self.schema, is_resource=True)

    def type_error(self, obj: Json) -> status.ApiError | None:
        """The refusal of an object that says it is of another kind or version."""
        errors = []
        for field, expected in (("kind", self.resource.kind), ("apiVersion", self.resource.api_version)):
            given = obj.get(field) or ""
            if given != expected:
                errors.append(invalid(field, given, f"must be {expected}"))
        if not errors:
            return None
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        kind = obj.get("kind")
        shown = _named(self.resource, kind if isinstance(kind, str) and kind else self.resource.kind)
        return status.invalid(shown, name if isinstance(name, str) else "", errors)

    def prune(self, obj: Json) -> list[str]:
        """Take out what the schema does not know, and nulls that say nothing; the paths of unknown fields."""
        unknown = [*prune_metadata(obj), *prune(self.schema, obj)]
        drop_stray_nulls(self.schema, obj)
        if self.schema.has_embedded:
            unknown += prune_embedded(self.schema, obj)
        return unknown

    def set_defaults(self, obj: Json) -> None:
        if self.schema.has_defaults:
            set_defaults(self.schema, obj)

    def prepare(self, obj: Json) -> None:
        """Prune an object and set its defaults before validation, also those of the storage version."""
        self.prune(obj)
        self.set_defaults(obj)
        if self.stored_schema is not self.schema and not self.resource.keeps_versions:
            prune(self.stored_schema, obj)

    def errors(self, new: Json, old: Json | None, subresource: str) -> list[FieldError]:
        """Errors of an object, besides its metadata."""
        errors: list[FieldError] = []
        schema = self.schema
        if subresource == "status":
            part = schema.properties.get("status")
            if part is not None and "status" in new:
                before = ABSENT if old is None else old.get("status", ABSENT)
                errors += schema_errors(part, new["status"], "status", before)
        else:
            errors += schema_errors(schema, new, "", ABSENT if old is None else old)
            errors += self._replicas_errors(new, "specReplicasPath")
        errors += self._replicas_errors(new, "statusReplicasPath")
        errors += self._selector_errors(new)
        if subresource != "status" and schema.has_embedded:
            errors += embedded_errors(schema, new)
        if schema.has_keyed_lists and (old is None or not any(True for _ in list_errors(schema, old))):
            errors += list_errors(schema, new)
        unchecked = unchecked_rules_error(schema, errors)
        if schema.has_rules and not unchecked:
            errors += rule_errors(schema, new, old)
        return errors + unchecked

    @staticmethod
    def finalizer_warnings(new: Json, old: Json | None) -> list[str]:
        """Finalizers that were added and do not say whose they are."""
        before = () if old is None else old["metadata"].get("finalizers") or ()
        added = sorted(set(new["metadata"].get("finalizers") or ()) - set(before))
        return [warning for name in added for warning in _finalizer_warnings(name)]

    def _replicas_errors(self, obj: Json, field: str) -> Iterator[FieldError]:
        if self.scale is None or not self.scale.get(field):
            return
        path: str = self.scale[field]
        value, problem = nested(obj, path, int)
        if problem:
            yield invalid(path, 0, problem)
        elif value is not None and value < 0:
            yield invalid(path, value, "should be a non-negative integer")
        elif value is not None and value > _MAX_INT32:
            yield invalid(path, value, f"should be less than or equal to {_MAX_INT32}")

    def _selector_errors(self, obj: Json) -> Iterator[FieldError]:
        path = (self.scale or {}).get("labelSelectorPath")
        if path:
            _, problem = nested(obj, path, str)
            if problem:
                yield invalid(path, "", problem)

    def shown(self, obj: Json) -> Json:
        """A stored object as it is read in this version, without its webhook's help."""
        if self.resource.keeps_versions:
            return self._common_fields(obj)
        if obj["apiVersion"] == self.resource.api_version and self.stored_schema is self.schema:
            return obj
        shown = {**obj, "apiVersion": self.resource.api_version}
        if self.stored_schema is self.schema:
            return shown
        mine: Json = copied(shown)
        prune(self.schema, mine)
        return mine

    def _common_fields(self, obj: Json) -> Json:
        """An object that is stored as it was written, with the fields that this version knows."""
        mine: Json = fitting(self.schema, {**copied(obj), "apiVersion": self.resource.api_version})
        prune(self.schema, mine)
        return mine

    def settled(self, converted: Json) -> Json:
        """An object that a webhook has converted to this version, pruned and with its defaults."""
        mine: Json = copied(converted)
        prune(self.schema, mine)
        self.set_defaults(mine)
        return mine

    def scale_of(self, obj: Json) -> tuple[Json, bool]:
        """The Scale of an object, and whether the object says how many there shall be."""
        assert self.scale is not None
        replicas, problem = nested(obj, self.scale["specReplicasPath"], int)
        current, also = nested(obj, self.scale["statusReplicasPath"], int)
        selector, too = (
            nested(obj, self.scale["labelSelectorPath"], str)
            if self.scale.get("labelSelectorPath")
            else (None, "")
        )
        if problem or also or too:
            raise status.internal_error(problem or also or too)
        metadata = obj["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        shown: Json = {"replicas": current or 0}
        if selector:
            shown["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in kept if key in metadata},
            "spec": {} if not replicas else {"replicas": replicas},
            "status": shown,
        }, replicas is not None

    def with_replicas(self, obj: Json, replicas: int) -> Json:
        """The object with another number of replicas, where its scale has them."""
        assert self.scale is not None
        return _with_value(obj, path_parts(self.scale["specReplicasPath"]), replicas)


def _named(resource: Resource, kind: str) -> Resource:
    """The resource under the name of another kind, for a message."""
    return Resource(resource.group, resource.version, resource.plural, kind)


_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


def _finalizer_warnings(name: str) -> Iterator[str]:
    where = f"metadata.finalizers: {quote(name)}"
    yield from (f"{where}: {problem}" for problem in label_key_problems(name))
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        yield (
            f"{where}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with "
            "other finalizer writers"
        )


def is_converted_by_webhook(definition: Json) -> bool:
    conversion = (definition.get("spec") or {}).get("conversion") or {}
    return bool(conversion.get("strategy") == "Webhook")


def schema_of(version: Json) -> StructuralSchema:
    """The schema of a version; one that has none keeps everything."""
    raw = (version.get("schema") or {}).get("openAPIV3Schema")
    return StructuralSchema(raw or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})


def path_parts(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def nested(obj: Json, path: str, type_: type) -> tuple[Any, str]:
    """The value at a path of plain fields, None if there is none, and what is wrong with it."""
    value: Any = obj
    parts = path_parts(path)
    for i, part in enumerate(parts):
        if not isinstance(value, dict):
            return None, _accessor_error(parts[: i + 1], value, "map[string]interface{}")
        if part not in value:
            return None, ""
        value = value[part]
    if type(value) is type_:
        return value, ""
    return None, _accessor_error(parts, value, "int64" if type_ is int else "string")


def _accessor_error(parts: list[str], value: Any, expected: str) -> str:
    found = f"{_go_value(value)} is of the type {_go_type(value)}"
    return f".{'.'.join(parts)} accessor error: {found}, expected {expected}"


def _go_type(value: Any) -> str:
    return "<nil>" if value is None else _GO_TYPES.get(type(value), "interface {}")


def _go_value(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_value(part)}" for key, part in ordered(value).items()) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_value, value)) + "]"
    return str(value)


def _with_value(obj: Json, parts: list[str], value: Any) -> Json:
    first, *rest = parts
    if not rest:
        return {**obj, first: value}
    inner = obj.get(first)
    if inner is not None and not isinstance(inner, dict):
        raise status.bad_request(f"value cannot be set because .{first} is not a map[string]interface{{}}")
    return {**obj, first: _with_value(inner or {}, rest, value)}


def copied(value: Any) -> Any:
    """JSON data of one's own."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list | tuple) else value
