"""The table of types, read once."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from stowplan.api.releases import Release, Version

PLAIN: Final = frozenset(
    ("string", "int", "long", "number", "bool", "bytes", "time", "microtime", "quantity", "intstr", "any")
)


class Form(NamedTuple):
    """Form of a field's value: something plain, a type of the table, a list or a map of something.

    `shape` is `plain`, `type`, `list` or `map`; `name` is the plain form or the type.
    """

    shape: str
    name: str = ""
    of: "Form | None" = None


class ReleaseSpan(NamedTuple):
    """The releases that have something: from the first to the last that is named."""

    first: Version | None = None
    last: Version | None = None

    def has(self, version: Version) -> bool:
        return (self.first is None or self.first <= version) and (self.last is None or version <= self.last)


ALWAYS: Final = ReleaseSpan()


class SchemaField(NamedTuple):
    """A field of a type.

    `keys` identify the elements of a list (`("",)`: they do so themselves), none if the list is one
    thing. `merge_key` is what a strategic merge patch goes by, None if it replaces the list. `number` is the
    field's place in protobuf: several numbers if it is nested there. `zero_counts`: it may be zero or empty
    and that means something (a pointer in Go). `always_written`: Go writes it even if it has no value,
    because it is not `omitempty`, or is a struct. `span` are the releases that have it.
    """

    name: str
    form: Form
    required: bool = False
    keys: tuple[str, ...] = ()
    merge_key: str | None = None
    retains_keys: bool = False
    atomic: bool = False
    number: tuple[int, ...] = ()
    zero_counts: bool = False
    always_written: bool = False
    span: ReleaseSpan = ALWAYS


class TypeDef(NamedTuple):
    """A type: its fields by name. `atomic`: it is one thing to server-side apply.

    `span` are the releases that have a kind. Other types are there where a field has them.
    """

    package: str
    name: str
    fields: dict[str, SchemaField]
    atomic: bool = False
    is_kind: bool = False
    span: ReleaseSpan = ALWAYS

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"


class Schema:
    """All types by `group.version.Name`, or what one release has of them."""

    def __init__(self, text: str, release: Version | None = None) -> None:
        self.types: dict[str, TypeDef] = {found.full_name: found for found in _types(text)}
        if release is not None:
            there = (found for found in self.types.values() if found.span.has(release))
            self.types = {found.full_name: _fields_at(found, release) for found in there}

    def of_kind(self, group: str, version: str, kind: str) -> TypeDef | None:
        """The type of the objects of a kind, None for one that is not in the table."""
        return self.types.get(f"{group.split('.')[0] or 'core'}.{version}.{kind}")

    def referred(self, form: Form) -> TypeDef | None:
        """The type that a form names, None if it is something else."""
        return self.types[form.name] if form.shape == "type" else None


def the_schema() -> Schema:
    """The table that belongs to this package."""
    return _table(None)


def schema_of(release: Release) -> Schema:
    """Part of the table in a release: its kinds, and the fields of every type."""
    return _table(release.minor)


@cache
def _table(release: Version | None) -> Schema:
    return Schema(files(__package__).joinpath("types.txt").read_text("utf-8"), release)


def _fields_at(type_: TypeDef, release: Version) -> TypeDef:
    fields = {name: field for name, field in type_.fields.items() if field.span.has(release)}
    return type_._replace(fields=fields)


def _types(text: str) -> Iterator[TypeDef]:
    package, lines = "", dict[str, list[list[str]]]()
    for line in text.replace("\n  ", " ").splitlines():
        if line.startswith("["):
            package, _, like = line.strip("[]").partition(" = ")
            lines[package] = [*lines[like]] if like else []
        elif line and not line.startswith("#"):
            lines[package].append(line.split())
    for package, types in lines.items():
        yield from (_type(package, words) for words in types)


def _type(package: str, words: list[str]) -> TypeDef:
    head, *rest = words
    is_kind = head.startswith("@")
    name, _, span = head.removeprefix("@").partition("@")
    fields = [_field(package, word) for word in rest]
    if is_kind:
        fields = [
            SchemaField("apiVersion", Form("plain", "string")),
            SchemaField("kind", Form("plain", "string")),
            *fields,
        ]
    named = {field.name: field for field in fields}
    return TypeDef(package, name.removesuffix("!"), named, name.endswith("!"), is_kind, _span(span))


def _field(package: str, word: str) -> SchemaField:
    name, _, rest = word.partition(":")
    name, _, number = name.partition("#")
    number, _, span = number.partition("@")
    always_written, name = name.endswith("+"), name.removesuffix("+")
    zero_counts, name = name.endswith("?"), name.removesuffix("?")
    atomic, rest = rest.endswith("!"), rest.removesuffix("!")
    retains, rest = rest.endswith("^"), rest.removesuffix("^")
    rest, tilde, merge_key = rest.partition("~")
    form, _, keys = rest.partition("=")
    return SchemaField(
        name.removesuffix("*"),
        _form(package, form),
        required=name.endswith("*"),
        keys=() if not keys else ("",) if keys == "set" else tuple(keys.split(",")),
        merge_key=merge_key if tilde else None,
        retains_keys=retains,
        atomic=atomic,
        number=tuple(map(int, number.split("."))) if number else (),
        zero_counts=zero_counts,
        always_written=always_written,
        span=_span(span),
    )


def _span(text: str) -> ReleaseSpan:
    if not text:
        return ALWAYS
    version = Version.parse(text.removeprefix("-"))
    return ReleaseSpan(last=version) if text.startswith("-") else ReleaseSpan(first=version)


def _form(package: str, text: str) -> Form:
    if text.startswith("["):
        return Form("list", of=_form(package, text[1:-1]))
    if text.startswith("{"):
        return Form("map", of=_form(package, text[1:-1]))
    if text in PLAIN:
        return Form("plain", text)
    return Form("type", text if "." in text else f"{package}.{text}")
