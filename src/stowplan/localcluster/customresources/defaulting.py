"""Preparation of an object by a schema before validation: unknown fields are pruned, defaults filled in.

The objects are changed in place: they belong to the request.
"""

from copy import deepcopy
from typing import Any

from stowplan.api.fielderrors import child
from stowplan.api.requests import Json
from stowplan.localcluster.customresources.structural import ABSENT, META_FIELDS, StructuralSchema
from stowplan.localcluster.schema import the_schema, unknown_fields
from stowplan.localcluster.schema.goform import as_written


def set_defaults(schema: StructuralSchema, value: Any) -> None:
    """Fill in what the schema has a default for, also where a null stands that may not stand there."""
    if isinstance(value, dict):
        for name, part in schema.properties.items():
            if part.default is not ABSENT and (name not in value or _is_stray_null(part, value[name])):
                value[name] = deepcopy(part.default)
        for name in list(value):
            inner = schema.child(name)
            if inner is None:
                continue
            if name not in schema.properties and _is_stray_null(inner, value[name]):
                value[name] = None if inner.default is ABSENT else deepcopy(inner.default)
            set_defaults(inner, value[name])
    elif isinstance(value, list) and schema.items is not None:
        items = schema.items
        for i, element in enumerate(value):
            if _is_stray_null(items, element):
                value[i] = None if items.default is ABSENT else deepcopy(items.default)
            set_defaults(items, value[i])


def _is_stray_null(schema: StructuralSchema, value: Any) -> bool:
    return value is None and not schema.nullable


def drop_stray_nulls(schema: StructuralSchema | None, value: Any) -> None:
    """Take out nulls where none may stand and no default comes in their place: they say nothing."""
    if isinstance(value, dict):
        for name in list(value):
            part = None if schema is None else schema.child(name)
            if value[name] is None:
                if part is not None and not part.nullable and part.default is ABSENT:
                    del value[name]
            else:
                drop_stray_nulls(part, value[name])
    elif isinstance(value, list):
        for element in value:
            drop_stray_nulls(None if schema is None else schema.items, element)


def prune(schema: StructuralSchema, obj: Any, *, is_resource: bool = True) -> list[str]:
    """Remove the fields that the schema does not know; returns their paths, sorted.

    `is_resource`: the value is an object with kind and metadata, which need not be specified.
    """
    unknown: list[str] = []
    _prune(schema, obj, "", is_resource, unknown)
    return sorted(unknown)


def _prune(
    schema: StructuralSchema | None, value: Any, path: str, is_resource: bool, unknown: list[str]
) -> None:
    if schema is not None and schema.preserve:
        _keep(schema, value, path, is_resource, unknown)
    elif isinstance(value, dict):
        _prune_map(schema, value, path, is_resource, unknown)
    elif isinstance(value, list):
        items = None if schema is None else schema.items
        for i, element in enumerate(value):
            _prune(items, element, f"{path}[{i}]", _is_embedded(items), unknown)


def _prune_map(
    schema: StructuralSchema | None, value: Json, path: str, is_resource: bool, unknown: list[str]
) -> None:
    for key in list(value):
        if is_resource and key in META_FIELDS:
            continue
        here = f"{path}.{key}" if path else key
        part = None if schema is None else schema.properties.get(key)
        if part is not None:
            _prune(part, value[key], here, part.embedded, unknown)
        elif schema is not None and schema.has_additional:
            _prune(schema.additional, value[key], here, _is_embedded(schema.additional), unknown)
        else:
            unknown.append(here)
            del value[key]


def _keep(schema: StructuralSchema, value: Any, path: str, is_resource: bool, unknown: list[str]) -> None:
    """Unknown fields stay; those that are specified are pruned by what is said of them."""
    if isinstance(value, dict):
        for key, part in value.items():
            if is_resource and key in META_FIELDS:
                continue
            known = schema.properties.get(key)
            here = f"{path}.{key}" if path else key
            if known is not None:
                _prune(known, part, here, known.embedded, unknown)
            elif schema.has_additional:
                _prune(schema.additional, part, here, _is_embedded(schema.additional), unknown)
    elif isinstance(value, list) and schema.items is not None:
        for i, element in enumerate(value):
            _keep(schema.items, element, f"{path}[{i}]", schema.items.embedded, unknown)


def _is_embedded(schema: StructuralSchema | None) -> bool:
    return schema is not None and schema.embedded


def prune_metadata(obj: Json, path: str = "") -> list[str]:
    """Take out fields that no metadata has; gives back their paths.

    What stays is in Go's form, like the metadata of built-in kinds: without empty labels and annotations.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return []
    here = child(path, "metadata")
    type_ = the_schema().types["meta.v1.ObjectMeta"]
    unknown = [f"{here}.{name}" for name in unknown_fields(type_, metadata)]
    obj["metadata"] = as_written(type_, metadata)
    return unknown


def prune_embedded(schema: StructuralSchema, value: Any, path: str = "") -> list[str]:
    """The same in objects that are part of another; there nulls go too."""
    unknown: list[str] = []
    if isinstance(value, dict):
        if schema.embedded and isinstance(value.get("metadata"), dict):
            unknown += prune_metadata(value, path)
            value["metadata"] = {k: part for k, part in value["metadata"].items() if part is not None}
        for key, part in value.items():
            inner = schema.child(key)
            if inner is not None:
                unknown += prune_embedded(inner, part, child(path, key))
    elif isinstance(value, list) and schema.items is not None:
        for i, element in enumerate(value):
            unknown += prune_embedded(schema.items, element, f"{path}[{i}]")
    return unknown
