"""CustomResourceDefinitions: their defaults, their validation, what is said about them without a refusal.

The API server keeps what all versions have in common once, for the whole definition; its messages name fields
accordingly (`spec.validation.openAPIV3Schema` where every `spec.versions[*].schema` is the same).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from stowplan.api.fielderrors import (
    FieldError,
    Kind,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.api.names import service_name_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.customresources.conditions import (
    ESTABLISHED,
    is_true,
    storage_version,
    versions_of,
    with_stored_version,
)
from stowplan.localcluster.customresources.formats import is_recognized
from stowplan.localcluster.customresources.rules import refused_rules
from stowplan.localcluster.customresources.schemarules import schema_rule_errors, walk
from stowplan.localcluster.customresources.structural import StructuralSchema

_APPROVED: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_MAX_SELECTABLE: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "binary",
    "bytes",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def set_definition_defaults(definition: Json) -> None:
    """Fill in names that follow from others, and that objects are not converted."""
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
        return
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if isinstance(service, dict):
        service.setdefault("port", 443)


def _shared(spec: Json) -> tuple[Json, list[Json]]:
    """Common fields of all versions, and the versions without them."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    common: Json = {}
    for field in _SHARED:
        values = [version.get(field) or None for version in versions]
        if versions and all(value == values[0] for value in values):
            common[field] = values[0]
            for version in versions:
                version.pop(field, None)
    return common, versions


def definition_errors(definition: Json) -> list[FieldError]:
    """Errors of a new definition, besides its metadata."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    name = definition["metadata"].get("name", "")
    errors: list[FieldError] = []
    if name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    errors += _spec_errors(spec)
    stored = storage_version(definition)
    errors += _stored_version_errors([stored] if stored else [], spec)
    return [*errors, *_approval_errors(definition), *_preserve_errors(spec)]


def definition_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Errors of a definition that replaces another."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = [*_spec_errors(spec)]
    immutable = [("group",), ("names", "plural")]
    if is_true(old, ESTABLISHED):
        immutable = [("scope",), ("names", "kind"), *immutable]
    for path in immutable:
        value, was = _at(spec, path), _at(before, path)
        if value != was:
            errors.append(invalid(f"spec.{'.'.join(path)}", value or "", "field is immutable"))
    stored = (with_stored_version({**new, "status": old.get("status")}).get("status") or {}).get(
        "storedVersions"
    )
    errors += _stored_version_errors(stored or [], spec)
    if not before.get("preserveUnknownFields"):
        errors += _preserve_errors(spec)
    if old["metadata"].get("annotations", {}).get(_APPROVED) != new["metadata"].get("annotations", {}).get(
        _APPROVED
    ):
        errors += _approval_errors(new)
    return errors


def _at(data: Json, path: Sequence[str]) -> Any:
    for part in path:
        data = (data or {}).get(part) or {}
    return data


def _spec_errors(spec: Json) -> Iterator[FieldError]:
    common, versions = _shared(spec)
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif problems := subdomain_problems(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _choice_errors("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    if (common.get("schema") or {}).get("openAPIV3Schema") is None:
        for i, version in enumerate(versions):
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                yield required(f"spec.versions[{i}].schema.openAPIV3Schema")
    shared_status = _has_status(common)
    for i, version in enumerate(versions):
        yield from _version_errors(version, f"spec.versions[{i}]", shared_status or _has_status(version))
    yield from _version_list_errors(spec, versions)
    yield from _name_errors(spec.get("names") or {})
    has_status = shared_status or any(map(_has_status, versions))
    yield from _part_errors(common, "spec", "validation", has_status)
    if (spec.get("conversion") or {}).get("strategy", "None") != "None" and spec.get("preserveUnknownFields"):
        detail = "must be None if spec.preserveUnknownFields is true"
        yield invalid("spec.conversion.strategy", spec["conversion"]["strategy"], detail)
    yield from _conversion_errors(spec.get("conversion"))


def _has_status(version: Json) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _choice_errors(path: str, value: str, choices: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in choices:
        yield not_supported(path, value, choices)


def _version_list_errors(spec: Json, versions: list[Json]) -> Iterator[FieldError]:
    names = [version.get("name") or "" for version in versions]
    shown = [_internal(version) for version in versions] or None
    if len(set(names)) != len(names):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if names and (problems := service_name_problems(names[0])):
        yield invalid("spec.version", names[0], ",".join(problems))


def _internal(version: Json) -> Json:
    """A version as the API server has it in memory: that is what its messages show."""
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": version.get("schema"),
        "Subresources": version.get("subresources"),
        "AdditionalPrinterColumns": version.get("additionalPrinterColumns"),
        "SelectableFields": version.get("selectableFields"),
    }


def _version_errors(version: Json, path: str, has_status: bool) -> Iterator[FieldError]:
    name, warning = version.get("name") or "", version.get("deprecationWarning")
    if problems := service_name_problems(name):
        yield invalid(f"{path}.name", name, ",".join(problems))
    for problem in _warning_problems(bool(version.get("deprecated")), warning):
        yield invalid(f"{path}.deprecationWarning", warning, problem)
    yield from _part_errors(version, path, "schema", has_status)


def _warning_problems(deprecated: bool, warning: str | None) -> Iterator[str]:
    if warning is None:
        return
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode("utf-8", "surrogatepass")) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for i, character in enumerate(warning):
        if not character.isprintable():
            how = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield f"{how} {len(warning[:i].encode('utf-8', 'surrogatepass'))}"
            break


def _part_errors(part: Json, path: str, schema_field: str, has_status: bool) -> Iterator[FieldError]:
    """Errors of a version, or of the part common to all versions: schema, subresources, columns, fields."""
    schema = (part.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        yield from schema_rule_errors(schema, f"{path}.{schema_field}.openAPIV3Schema", has_status=has_status)
    yield from _scale_errors((part.get("subresources") or {}).get("scale"), f"{path}.subresources")
    for i, column in enumerate(part.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{i}]")
    yield from _selectable_errors(part.get("selectableFields") or (), schema, f"{path}.selectableFields")


def _scale_errors(scale: Json | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for field, roots, where in (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    ):
        here, value = f"{path}.scale.{field}", scale.get(field)
        if not value:
            if field != "labelSelectorPath":
                yield required(here)
        elif not value.startswith("."):
            yield invalid(here, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            yield invalid(here, value, f"should be a json path under {where}")


def _column_errors(column: Json, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    type_, format_ = column.get("type") or "", column.get("format") or ""
    if not type_:
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif type_ not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", type_, f"must be one of {','.join(_COLUMN_TYPES)}")
    if format_ and format_ not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    json_path = column.get("jsonPath") or ""
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        yield invalid(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _selectable_errors(fields: Sequence[Json], schema: Json | None, path: str) -> Iterator[FieldError]:
    if fields and schema is None:
        detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid(path, "", detail)
        return
    seen: set[str] = set()
    for i, field in enumerate(fields):
        here, json_path = f"{path}[{i}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            yield required(here)
            continue
        problem = _field_problem(json_path, schema or {})
        if problem:
            yield invalid(here, json_path, problem)
        if json_path in seen:
            yield duplicate(here, json_path)
        seen.add(json_path)
    if len(seen) > _MAX_SELECTABLE:
        yield FieldError(path, Kind.TOO_MANY, len(seen), f"must have at most {_MAX_SELECTABLE} items")


def _field_problem(json_path: str, schema: Json) -> str:
    """Why a field cannot be selected by, empty if it can."""
    if not json_path.startswith("."):
        return "is an invalid path: expected [ or . but got: " + json_path[:1]
    parts = json_path[1:].split(".")
    if parts[0] == "metadata":
        return "must not point to fields in metadata"
    for part in parts:
        found = (schema.get("properties") or {}).get(part)
        if found is None:
            return "is an invalid path: does not refer to a valid field"
        schema = found
    if schema.get("type") not in ("string", "boolean", "integer"):
        return (
            "must point to a field of type string, boolean or integer. Enum string fields and strings with "
            "formats are allowed."
        )
    return ""


def _name_errors(names: Json) -> Iterator[FieldError]:
    path = "spec.names"
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"{path}.{field}")
    for field in ("plural", "singular"):
        value = names.get(field) or ""
        if value and (problems := service_name_problems(value)):
            yield invalid(f"{path}.{field}", value, ",".join(problems))
    for field in ("kind", "listKind"):
        value = names.get(field) or ""
        if value and (problems := service_name_problems(value.lower())):
            how = "may have mixed case, but should otherwise match: "
            yield invalid(f"{path}.{field}", value, how + ",".join(problems))
    for field in ("shortNames", "categories"):
        if field == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
        for i, value in enumerate(names.get(field) or ()):
            if problems := service_name_problems(value):
                yield invalid(f"{path}.{field}[{i}]", value, ",".join(problems))


def _conversion_errors(conversion: Json | None) -> Iterator[FieldError]:
    if conversion is None:
        return
    path = "spec.conversion"
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook")
    yield from _choice_errors(f"{path}.strategy", strategy, ("None", "Webhook"))
    config = (webhook or {}).get("clientConfig")
    versions = (webhook or {}).get("conversionReviewVersions") or []
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden(f"{path}.webhookClientConfig", detail)
        if versions:
            yield forbidden(f"{path}.conversionReviewVersions", detail)
        return
    if config is None:
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from _webhook_errors(config, f"{path}.webhookClientConfig")
    yield from _review_version_errors(versions, f"{path}.conversionReviewVersions")


def _webhook_errors(config: Json, path: str) -> Iterator[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        parts = urlsplit(url)
        if parts.scheme != "https":
            form = "; desired format: https://host[/path]"
            yield invalid(f"{path}.url", parts.scheme, "'https' is the only allowed URL scheme" + form)
        if not parts.netloc:
            form = "; desired format: https://host[/path]"
            yield invalid(f"{path}.url", parts.netloc, "host must be specified" + form)
    elif service is not None:
        if not service.get("name"):
            yield required(f"{path}.service.name", "service name is required")
        if not service.get("namespace"):
            yield required(f"{path}.service.namespace", "service namespace is required")
        port = service.get("port", 443)
        if not 0 < port < 65536:
            yield invalid(
                f"{path}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive"
            )


def _review_version_errors(versions: Sequence[str], path: str) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
            continue
        seen.add(version)
        for problem in service_name_problems(version):
            yield invalid(f"{path}[{i}]", version, problem)
    if seen.isdisjoint(_REVIEW_VERSIONS):
        yield invalid(path, [*versions], f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _stored_version_errors(stored: Sequence[str], spec: Json) -> Iterator[FieldError]:
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    names = {version.get("name") for version in spec.get("versions") or ()}
    for i, version in enumerate(stored):
        if version not in names:
            detail = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and "
                f"removes {version} from status.storedVersions"
            )
            yield invalid(f"{path}[{i}]", version, detail)


def _approval_errors(definition: Json) -> Iterator[FieldError]:
    """Groups of the Kubernetes community need to say that they were approved."""
    group = (definition.get("spec") or {}).get("group") or ""
    if not (group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))):
        return
    path = f"metadata.annotations[{_APPROVED}]"
    given = (definition["metadata"].get("annotations") or {}).get(_APPROVED) or ""
    need = f"protected groups must have approval annotation {quote(_APPROVED)}"
    if not given:
        yield required(path, f"{need}, {_SEE}")
    elif not given.startswith("unapproved"):
        try:
            parts = urlsplit(given)
            approved = bool(parts.scheme and parts.netloc)
        except ValueError:
            approved = False
        if not approved:
            how = f'{need} with either a URL or a reason starting with "unapproved", {_SEE}'
            yield invalid(path, given, how)


def _preserve_errors(spec: Json) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", True, detail)


NOT_EVALUATED: Final = (
    "x-kubernetes-validations: a rule of {name} is stored, but not evaluated here: {reason}"
)
NOT_CONVERTED: Final = (
    "spec.conversion: nothing answers at the webhook of {name}: objects keep every field in the version they "
    "are written in; other versions show the fields they have in common"
)


def definition_warnings(definition: Json, old: Json | None = None) -> list[str]:
    """Warnings for the writer of a definition: formats that are not checked, fields without effect here."""
    before = [] if old is None else [*_schema_warnings(old)]
    warnings = [text for text in dict.fromkeys(_schema_warnings(definition)) if text not in before]
    name = definition["metadata"].get("name", "")
    for reason in dict.fromkeys(_refused_rules(definition)):
        warnings.append(NOT_EVALUATED.format(name=name, reason=reason))
    return warnings


def _refused_rules(definition: Json) -> Iterator[str]:
    for version in (definition.get("spec") or {}).get("versions") or ():
        raw = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(raw, dict):
            for reason in refused_rules(StructuralSchema(raw)):
                yield " ".join(reason.partition("\n")[0].split())


def _schema_warnings(definition: Json) -> Iterator[str]:
    for part in _all_schemas(definition):
        format_ = part.get("format")
        if format_ and not is_recognized(part.get("type") or "", format_):
            yield f"unrecognized format {quote(format_)}"
    for part in _all_schemas(definition):
        items = part.get("items")
        if part.get("x-kubernetes-list-type") != "set" or not isinstance(items, dict):
            continue
        if items.get("type") in ("object", "array"):
            yield (
                f"x-kubernetes-list-type: set for items of type {quote(items['type'])} is not supported by "
                "server-side apply or CEL validation rules"
            )


def _all_schemas(definition: Json) -> Iterator[Json]:
    for version in versions_of(definition):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if isinstance(schema, dict):
            yield from walk(schema)


def deprecation_warning(spec: Mapping[str, Any], version: Json) -> str:
    """Warning for users of a version, empty if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    kind, mine = spec["names"]["kind"], version["name"]
    text = f"{spec['group']}/{mine} {kind} is deprecated"
    newer = [
        other["name"]
        for other in spec["versions"]
        if other.get("served")
        and not other.get("deprecated")
        and version_order(other["name"]) < version_order(mine)
    ]
    return f"{text}; use {spec['group']}/{min(newer, key=version_order)} {kind}" if newer else text


def version_order(name: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes does: v10, v2, v1, v11beta2, v3beta1, v12alpha1, then others by name."""
    rest = name.removeprefix("v")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(stage)
        if found and major.isdigit() and minor.isdigit() and name.startswith("v"):
            return rank, -int(major), -int(minor), ""
    if name.startswith("v") and rest.isdigit():
        return 0, -int(rest), 0, ""
    return 3, 0, 0, name
