"""Types of the table as JSON schemas with Kubernetes' own additions."""

import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.embedded.schema import Field, Form, TypeDef, the_schema

_META: Final = "io.k8s.apimachinery.pkg.apis.meta"
_GROUPS: Final = {
    "apps": "apps",
    "batch": "batch",
    "policy": "policy",
    "autoscaling": "autoscaling",
    "core": "",
}
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
    """What a type is called in the documents."""
    package, _, name = full_name.rpartition(".")
    if package == "meta.v1":
        return f"{_META}.v1.{name}"
    return f"io.k8s.api.{package}.{name}"


def referred(type_: TypeDef, third: bool) -> tuple[Json, set[str]]:
    """A type as a schema, and the types it refers to. `third`: as version 3 has it."""
    needs: set[str] = set()
    properties = {name: _field(field, type_, needs, third) for name, field in type_.fields.items()}
    schema: Json = {"type": "object", "description": described(type_.name)}
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


def _field(field: Field, type_: TypeDef, needs: set[str], third: bool) -> Json:
    schema = _form(field.form, needs, third)
    told = described(f"{type_.name}.{field.name}")
    if "$ref" in schema and third:
        schema = {"allOf": [schema]}
    if told:
        schema["description"] = told
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


def _form(form: Form, needs: set[str], third: bool) -> Json:
    prefix = "#/components/schemas/" if third else "#/definitions/"
    if form.shape == "list":
        return {"type": "array", "items": _form(form.of or form, needs, third)}
    if form.shape == "map":
        return {"type": "object", "additionalProperties": _form(form.of or form, needs, third)}
    if form.shape == "type":
        needs.add(form.name)
        return {"$ref": prefix + public_name(form.name)}
    if form.name in _NAMED_PLAIN:
        return {"$ref": prefix + _NAMED_PLAIN[form.name]}
    return dict(_PLAIN[form.name])


def closure(names: set[str], third: bool) -> Json:
    """Schemas of some types and of everything they refer to, by their public names."""
    found: Json = {name: both[third] for name, both in NAMED.items()}
    waiting, seen = sorted(names), set(names)
    while waiting:
        name = waiting.pop()
        schema, needs = referred(the_schema().types[name], third)
        found[public_name(name)] = schema
        new = sorted(needs - seen)
        seen.update(new)
        waiting += new
    return dict(sorted(found.items()))


@cache
def _descriptions() -> dict[str, str]:
    text = files(__package__).joinpath("descriptions.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: told.strip() for name, _, told in (line.partition(" ") for line in lines)}


def described(name: str) -> str:
    """What there is to say about a type or a field, in a sentence."""
    found = _descriptions()
    if name in found:
        return found[name]
    field: Any = name.partition(".")[2]
    return found.get(f"*.{field}", "") if field else _from_name(name)


def _from_name(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return f"{words}."
