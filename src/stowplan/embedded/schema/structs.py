"""The table's types as msgspec structs, so that bodies are checked at the speed of decoding them."""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from stowplan.embedded.schema.types import Form, TypeDef, the_schema

_PLAIN: Final[dict[str, Any]] = {
    "string": str,
    "int": Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)],
    "long": Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
    "number": float,
    "bool": bool,
    "bytes": bytes,
    "time": Annotated[datetime, Meta(tz=True)],
    "microtime": Annotated[datetime, Meta(tz=True)],
    "quantity": str | int | float,
    "intstr": str | Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)],
    "any": Any,
}


@cache
def decoder(full_name: str) -> msgspec.json.Decoder[Any]:
    """Decodes JSON text as a type of the table; unknown fields are mistakes."""
    return msgspec.json.Decoder(struct_of(full_name))


@cache
def struct_of(full_name: str) -> type[msgspec.Struct]:
    """The type as a struct. Every field may be left out or null: what has to be there is asked for later."""
    found: TypeDef = the_schema().types[full_name]
    fields = [(f"f{i}", _python(field.form) | None, None) for i, field in enumerate(found.fields.values())]
    names = {f"f{i}": name for i, name in enumerate(found.fields)}
    return msgspec.defstruct(found.name, fields, rename=names, forbid_unknown_fields=True, gc=False)


def _python(form: Form) -> Any:
    if form.shape == "list":
        assert form.of is not None
        return list[_python(form.of)]  # type: ignore[misc]
    if form.shape == "map":
        assert form.of is not None
        return dict[str, _python(form.of)]  # type: ignore[misc]
    return struct_of(form.name) if form.shape == "type" else _PLAIN[form.name]
