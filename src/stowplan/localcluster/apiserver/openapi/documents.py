"""The OpenAPI documents: version 2 for everything at once, version 3 for each group and version."""

import hashlib
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from stowplan.api.catalogue import BUILT_IN, Resource
from stowplan.api.releases import Release
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.discovery import CREATE_ONLY, DiscoveryEntry, ServedKinds, entries_of
from stowplan.localcluster.apiserver.openapi import operations
from stowplan.localcluster.apiserver.openapi.gnostic import encoded
from stowplan.localcluster.apiserver.responses import response_of
from stowplan.localcluster.customresources.openapi import definition_name, document_schema
from stowplan.localcluster.schema import Form, Schema, SchemaField, TypeDef, schema_of
from stowplan.localcluster.store.definitions import Definitions

_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApi:
    """Documents about what is served, as its release has it, each made when first asked for."""

    def __init__(self, served: ServedKinds, definitions: Definitions, release: Release) -> None:
        self._info: Json = {"title": "stowplan", "version": f"v{release.name}"}
        self._schema = schema_of(release)
        self._served = served
        self._definitions = definitions
        self._revision = definitions.revision
        self._custom: set[str] = set()
        self._made: dict[str, bytes] = {}

    def answer(self, path: str, accept: str) -> web.Response | None:
        """A document, None if there is none at this path."""
        parts = path.strip("/").split("/")
        if parts[0] != "openapi":
            return None
        if self._revision != self._definitions.revision:
            self._forget()
        if parts == ["openapi", "v2"]:
            if "protobuf" in accept:
                return response_of(self._bytes("v2.pb"), content_type=_PROTOBUF)
            return response_of(self._bytes("v2"))
        if parts == ["openapi", "v3"]:
            return response_of(msgspec.json.encode({"paths": self._index()}))
        if parts[:2] == ["openapi", "v3"]:
            place = "/".join(parts[2:])
            return response_of(self._bytes(place)) if place in self._groups() else None
        return None

    def _forget(self) -> None:
        """Make documents anew that say something of custom resources."""
        self._revision = self._definitions.revision
        for which in ("v2", "v2.pb", *self._custom):
            self._made.pop(which, None)

    def _index(self) -> Json:
        index: Json = {}
        for place in self._groups():
            digest = hashlib.sha256(self._bytes(place)).hexdigest()[:32].upper()
            index[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
        return index

    def _groups(self) -> dict[str, list[Resource]]:
        """Served resources by the path of their group and version."""
        found: dict[str, list[Resource]] = {}
        for resource in (*self._served, *CREATE_ONLY):
            found.setdefault(resource.prefix.strip("/"), []).append(resource)
        return found

    def _bytes(self, which: str) -> bytes:
        made = self._made.get(which)
        if made is None:
            if which == "v2.pb":
                made = encoded(self._second())
            else:
                made = msgspec.json.encode(self._second() if which == "v2" else self._third(which))
            self._made[which] = made
        return made

    def _second(self) -> Json:
        resources = [resource for group in self._groups().values() for resource in group]
        types = closure(self._schema, self._types_of(resources), third=False)
        return {
            "swagger": "2.0",
            "info": self._info,
            "paths": _paths_of(resources),
            "definitions": {**types, **self._schemas(resources, third=False)},
        }

    def _third(self, place: str) -> Json:
        resources = self._groups()[place]
        if any(resource.defined for resource in resources):
            self._custom.add(place)
        custom = self._schemas(resources, third=True)
        types = self._types_of(resources) | ({"meta.v1.ObjectMeta"} if custom else set())
        paths: Json = {}
        for resource in resources:
            paths |= operations.paths_of(resource, partial(self._schema_name, resource))
        return {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": paths,
            "components": {"schemas": {**closure(self._schema, types, third=True), **custom}},
        }

    def _types_of(self, resources: list[Resource]) -> set[str]:
        """The types of what is sent and answered: kinds, those of subresources, and options of deletions."""
        kinds = (self._kind_of(resource, entry) for resource in resources for entry in entries_of(resource))
        return {operations.DELETE_OPTIONS, *(kind.full_name for kind in kinds if kind is not None)}

    def _kind_of(self, resource: Resource, entry: DiscoveryEntry) -> TypeDef | None:
        if not entry.version and resource.custom:
            return None
        return self._schema.of_kind(
            entry.group if entry.version else resource.group, entry.version or resource.version, entry.kind
        )

    def _schema_name(self, resource: Resource, entry: DiscoveryEntry) -> str | None:
        """The name of the schema of an entry's kind."""
        custom = None if entry.version else self._definitions.version_of(resource)
        if custom is not None:
            return definition_name(custom)
        type_ = self._kind_of(resource, entry)
        return None if type_ is None else public_name(type_.full_name)

    def _schemas(self, resources: list[Resource], *, third: bool) -> Json:
        """The schemas of custom resources by their names."""
        versions = (self._definitions.version_of(resource) for resource in resources)
        return {
            definition_name(one): document_schema(one, third=third) for one in versions if one is not None
        }


def _paths_of(resources: list[Resource]) -> Json:
    paths: Json = {}
    for resource in resources:
        paths |= paths_of(resource)
    return paths


_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "pretty")
_APPLY_PARAMETERS: Final = (*_WRITE_PARAMETERS, "force")


def paths_of(resource: Resource) -> Json:
    """The paths of a resource with their operations, for documents of version 2."""
    base = resource.prefix + ("/namespaces/{namespace}" if resource.namespaced else "")
    many, one = f"{base}/{resource.plural}", f"{base}/{resource.plural}/{{name}}"
    operations = {
        many: {
            "get": ("list", ()),
            "post": ("create", _WRITE_PARAMETERS),
        },
        one: {
            "get": ("get", ()),
            "put": ("update", _WRITE_PARAMETERS),
            "patch": ("patch", _APPLY_PARAMETERS),
            "delete": ("delete", ("dryRun",)),
        },
    }
    return {
        path: {
            method: _operation(resource, _ACTIONS.get(verb, verb), said)
            for method, (verb, said) in methods.items()
            if verb in resource.verbs
        }
        for path, methods in operations.items()
        if any(verb in resource.verbs for verb, _ in methods.values())
    }


_ACTIONS: Final = {"create": "post", "update": "put"}
"""Verbs that the documents call by their methods."""


def _operation(resource: Resource, action: str, said: tuple[str, ...]) -> Json:
    group = "".join(part.capitalize() for part in (resource.group or "core").split(".")[:1])
    scope = "Namespaced" if resource.namespaced else ""
    return {
        "operationId": f"{action}{group}{resource.version.capitalize()}{scope}{resource.kind}"
        + ("List" if action == "list" else ""),
        "parameters": [_parameter(name) for name in said],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "kind": resource.kind,
            "version": resource.version,
        },
    }


def _parameter(name: str) -> Json:
    kind = "boolean" if name == "force" else "string"
    return {"name": name, "in": "query", "type": kind, "uniqueItems": True}


_GROUPS: Final = {resource.group.split(".")[0] or "core": resource.group for resource in BUILT_IN}
"""API groups by the names that their packages have in the table."""

_PACKAGES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
"""Where the types of packages outside io.k8s.api are."""

_PLAIN: Final[dict[str, Json]] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "long": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "any": {"type": "object"},
}
_NAMED_PLAIN: Final = {
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "intstr": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}

NAMED: Final[dict[str, tuple[Json, Json]]] = {
    _NAMED_PLAIN["quantity"]: (
        {"type": "string", "description": "An amount, such as 100m, 2 or 4Gi."},
        {
            "oneOf": [{"type": "string"}, {"type": "number"}],
            "description": "An amount, such as 100m, 2 or 4Gi.",
        },
    ),
    _NAMED_PLAIN["intstr"]: (
        {
            "type": "string",
            "format": "int-or-string",
            "description": "A number, or text such as a percentage.",
        },
        {
            "oneOf": [{"type": "integer"}, {"type": "string"}],
            "format": "int-or-string",
            "description": "A number, or text such as a percentage.",
        },
    ),
}
"""Types that have names and no fields, in version 2 and version 3."""


def group_of(package: str) -> str:
    """The API group of a package of the table."""
    name = package.partition(".")[0]
    return _GROUPS.get(name, f"{name}.k8s.io")


def public_name(full_name: str) -> str:
    """Name of a type in the documents."""
    package, _, rest = full_name.partition(".")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{rest}"


def referred(type_: TypeDef, third: bool) -> tuple[Json, set[str]]:
    """A type as a schema, and the types it refers to. `third`: as version 3 has it."""
    needs: set[str] = set()
    properties = {name: _field_schema(field, type_, needs, third) for name, field in type_.fields.items()}
    schema: Json = {"type": "object"}
    description = described(type_.name)
    if description:
        schema["description"] = description
    required = [name for name, field in type_.fields.items() if field.required]
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = properties
    if type_.is_kind:
        kind = {"group": group_of(type_.package), "kind": type_.name, "version": type_.package.split(".")[1]}
        schema["x-kubernetes-group-version-kind"] = [kind]
    if type_.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema, needs


def _field_schema(field: SchemaField, type_: TypeDef, needs: set[str], third: bool) -> Json:
    schema = _form_schema(field.form, needs, third)
    description = described(type_.name, field.name)
    if "$ref" in schema and third:
        schema = {"allOf": [schema]}
    if description:
        schema["description"] = description
    if field.keys == ("",):
        schema["x-kubernetes-list-type"] = "set"
    elif field.keys:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.keys)}
    elif field.form.shape == "list":
        schema["x-kubernetes-list-type"] = "atomic"
    strategy = (["merge"] if field.merge_key is not None else []) + (
        ["retainKeys"] if field.retains_keys else []
    )
    if strategy:
        schema["x-kubernetes-patch-strategy"] = ",".join(strategy)
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema


def _form_schema(form: Form, needs: set[str], third: bool) -> Json:
    prefix = "#/components/schemas/" if third else "#/definitions/"
    if form.shape == "list":
        return {"type": "array", "items": _form_schema(form.of or form, needs, third)}
    if form.shape == "map":
        return {"type": "object", "additionalProperties": _form_schema(form.of or form, needs, third)}
    if form.shape == "type":
        needs.add(form.name)
        return {"$ref": prefix + public_name(form.name)}
    if form.name in _NAMED_PLAIN:
        return {"$ref": prefix + _NAMED_PLAIN[form.name]}
    return dict(_PLAIN[form.name])


def closure(table: Schema, names: set[str], third: bool) -> Json:
    """Schemas of some types and of everything they refer to, by their public names."""
    found: Json = {name: both[third] for name, both in NAMED.items()}
    waiting, seen = sorted(names), set(names)
    while waiting:
        name = waiting.pop()
        schema, needs = referred(table.types[name], third)
        found[public_name(name)] = schema
        new = sorted(needs - seen)
        seen.update(new)
        waiting += new
    return dict(sorted(found.items()))


class _Descriptions(NamedTuple):
    """Texts by name, and by field those for all types that match a pattern, the longest pattern first."""

    named: dict[str, str]
    patterns: dict[str, list[tuple[str, str]]]


@cache
def described(type_name: str, field: str = "") -> str:
    """Description of a type, or of a field of it; empty if there is none."""
    found = _read()
    name = f"{type_name}.{field}" if field else type_name
    if name in found.named or not field:
        return found.named.get(name, "")
    matching = (text for pattern, text in found.patterns.get(field, ()) if fnmatchcase(type_name, pattern))
    return next(matching, "")


@cache
def _read() -> _Descriptions:
    named: dict[str, str] = {}
    patterns: dict[str, list[tuple[str, str]]] = {}
    for line in files(__package__).joinpath("descriptions.txt").read_text("utf-8").splitlines():
        name, _, text = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if "*" in name:
            pattern, _, field = name.partition(".")
            patterns.setdefault(field, []).append((pattern, text))
        else:
            named[name] = text
    for found in patterns.values():
        found.sort(key=lambda entry: -len(entry[0]))
    return _Descriptions(named, patterns)
