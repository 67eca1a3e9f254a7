"""The table of types, read once."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

PLAIN: Final = frozenset(
    ("string", "int", "long", "number", "bool", "bytes", "time", "microtime", "quantity", "intstr", "any")
)


class Form(NamedTuple):
    """What may stand in a field: something plain, a type of the table, a list or a map of something.

    `shape` is `plain`, `type`, `list` or `map`; `name` says which plain form or which type.
    """

    shape: str
    name: str = ""
    of: "Form | None" = None


class Field(NamedTuple):
    """A field of a type.

    `keys` identify the elements of a list (`("",)`: they do so themselves), none if the list is one
    thing. `merge_key` is what a strategic merge patch goes by, None if it replaces the list. `number` is the
    field's place in protobuf: several numbers if it is nested there. `zero_counts`: it may be zero or empty
    and that means something (a pointer in Go). `always_written`: Go writes it even if it has no value,
    because it is not `omitempty`, or is a struct.
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


class TypeDef(NamedTuple):
    """A type: its fields by name. `atomic`: it is one thing to server-side apply."""

    package: str
    name: str
    fields: dict[str, Field]
    atomic: bool = False
    is_kind: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"


class Schema:
    """All types by `group.version.Name`."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, TypeDef] = {found.full_name: found for found in _types(text)}

    def of_kind(self, group: str, version: str, kind: str) -> TypeDef | None:
        """The type of the objects of a kind, None for one that is not in the table."""
        return self.types.get(f"{group.split('.')[0] or 'core'}.{version}.{kind}")

    def referred(self, form: Form) -> TypeDef | None:
        """The type that a form names, None if it is something else."""
        return self.types[form.name] if form.shape == "type" else None


@cache
def the_schema() -> Schema:
    """The table that belongs to this package."""
    return Schema(files(__package__).joinpath("types.txt").read_text("utf-8"))


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
    name = head.strip("@!")
    fields = [_field(package, word) for word in rest]
    if is_kind:
        fields = [
            Field("apiVersion", Form("plain", "string")),
            Field("kind", Form("plain", "string")),
            *fields,
        ]
    return TypeDef(package, name, {field.name: field for field in fields}, head.endswith("!"), is_kind)


def _field(package: str, word: str) -> Field:
    name, _, rest = word.partition(":")
    name, _, number = name.partition("#")
    always_written, name = name.endswith("+"), name.removesuffix("+")
    zero_counts, name = name.endswith("?"), name.removesuffix("?")
    atomic, rest = rest.endswith("!"), rest.removesuffix("!")
    retains, rest = rest.endswith("^"), rest.removesuffix("^")
    rest, tilde, merge_key = rest.partition("~")
    form, _, keys = rest.partition("=")
    return Field(
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
    )


def _form(package: str, text: str) -> Form:
    if text.startswith("["):
        return Form("list", of=_form(package, text[1:-1]))
    if text.startswith("{"):
        return Form("map", of=_form(package, text[1:-1]))
    if text in PLAIN:
        return Form("plain", text)
    return Form("type", text if "." in text else f"{package}.{text}")
