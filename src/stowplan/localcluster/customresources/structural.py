"""Structural schemas: the OpenAPI v3 schema of a custom resource, read once.

A `StructuralSchema` is the same tree for everybody: it validates objects, gives them defaults, prunes them,
tells server-side apply how fields merge and is shown in the OpenAPI documents.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.gocompat import regexps
from stowplan.localcluster.customresources.formats import (
    INTEGER_FORMATS,
    NUMBER_FORMATS,
    Check,
    string_format,
)

ABSENT: Final[Any] = object()
"""Marks a missing default, since null may be one."""

META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))


class StructuralSchema:
    """One node of a schema. Only what was checked by the rules for schemas is made into one.

    Its parts are made when they are first needed: definitions are large, and most objects have few fields.
    """

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self.type: str = raw.get("type") or ""
        self.int_or_string = bool(raw.get("x-kubernetes-int-or-string"))
        self.types: tuple[str, ...] = (
            ("integer", "string") if self.int_or_string else (self.type,) if self.type else ()
        )
        self.nullable = bool(raw.get("nullable"))
        default = raw.get("default")
        self.default: Any = ABSENT if default is None else default
        self.preserve = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(raw.get("x-kubernetes-embedded-resource"))
        self.list_type: str = raw.get("x-kubernetes-list-type") or ""
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = raw.get("x-kubernetes-map-type") or ""
        self.rules: list[Json] = raw.get("x-kubernetes-validations") or []
        self._read_logic(raw)
        self._read_validations(raw)

    @cached_property
    def properties(self) -> "dict[str, StructuralSchema]":
        return {name: StructuralSchema(part) for name, part in (self.raw.get("properties") or {}).items()}

    @cached_property
    def items(self) -> "StructuralSchema | None":
        items = self.raw.get("items")
        return StructuralSchema(items) if isinstance(items, dict) else None

    @cached_property
    def additional(self) -> "StructuralSchema | None":
        """The schema of fields that are not among the properties."""
        additional = self.raw.get("additionalProperties")
        return StructuralSchema(additional) if isinstance(additional, dict) else None

    def _read_logic(self, raw: Json) -> None:
        additional = raw.get("additionalProperties")
        self.has_additional = additional is not None
        self.forbids_additional = additional is False
        self.all_of = [StructuralSchema(part) for part in raw.get("allOf") or ()]
        self.any_of = [StructuralSchema(part) for part in raw.get("anyOf") or ()]
        self.one_of = [StructuralSchema(part) for part in raw.get("oneOf") or ()]
        self.not_: StructuralSchema | None = (
            StructuralSchema(raw["not"]) if raw.get("not") is not None else None
        )
        self.is_composed = bool(self.all_of or self.any_of or self.one_of or self.not_ is not None)

    def _read_validations(self, raw: Json) -> None:
        self.enum: list[Any] = raw.get("enum") or []
        self.required: list[str] = raw.get("required") or []
        self.format: str = raw.get("format") or ""
        self.minimum, self.maximum = raw.get("minimum"), raw.get("maximum")
        self.exclusive_minimum = bool(raw.get("exclusiveMinimum"))
        self.exclusive_maximum = bool(raw.get("exclusiveMaximum"))
        self.multiple_of = raw.get("multipleOf")
        self.min_length, self.max_length = raw.get("minLength"), raw.get("maxLength")
        self.min_items, self.max_items = raw.get("minItems"), raw.get("maxItems")
        self.min_properties, self.max_properties = raw.get("minProperties"), raw.get("maxProperties")
        self.unique_items = bool(raw.get("uniqueItems"))
        self.pattern: str = raw.get("pattern") or ""
        self.checked_format = self._checked_format()
        self.format_check: Check | None = (
            string_format(self.checked_format)
            if self.checked_format and self.type in ("", "string")
            else None
        )

    def _checked_format(self) -> str:
        """The format, unless it means nothing for the type."""
        single = self.types[0] if len(self.types) == 1 else ""
        if single in ("", "string"):
            return self.format if string_format(self.format) is not None else ""
        known = {"integer": INTEGER_FORMATS, "number": NUMBER_FORMATS}.get(single, frozenset())
        return self.format if self.format in known else ""

    @cached_property
    def regexp(self) -> regexps.Regexp | None:
        return regexps.compile(self.pattern) if self.pattern else None

    @cached_property
    def has_rules(self) -> bool:
        """True if there are CEL rules anywhere in it."""
        return any(part.get("x-kubernetes-validations") for part in self._parts())

    @cached_property
    def has_defaults(self) -> bool:
        return any(part.get("default") is not None for part in self._parts())

    @cached_property
    def has_keyed_lists(self) -> bool:
        """True if some list has elements that must not repeat."""
        return any(part.get("x-kubernetes-list-type") in ("set", "map") for part in self._parts())

    @cached_property
    def has_embedded(self) -> bool:
        return any(part.get("x-kubernetes-embedded-resource") for part in self._parts())

    def _parts(self) -> Iterator[Json]:
        """This schema and those of everything in it, without those that only validate (allOf and others)."""
        waiting = [self.raw]
        while waiting:
            raw = waiting.pop()
            yield raw
            waiting += (raw.get("properties") or {}).values()
            waiting += [
                raw[field] for field in ("items", "additionalProperties") if isinstance(raw.get(field), dict)
            ]

    def child(self, name: str) -> "StructuralSchema | None":
        """The schema of a field, None if nothing is said about it."""
        return self.properties.get(name) or self.additional
