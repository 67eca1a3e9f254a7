"""What objects look like: the fields of every kind that is served, and the types of what stands in them.

One table (`types.txt`) serves everybody who has to know: bodies are checked against it, unknown fields found,
documents about the API written, and server-side apply learns from it the keys of lists. It has the kinds and
fields of all releases and says which release has which; `schema_of` is what one of them has.
"""

from stowplan.localcluster.schema.strict import TypeMismatchError, decode_body, unknown_fields
from stowplan.localcluster.schema.types import Field, Form, Schema, TypeDef, schema_of, the_schema

__all__ = [
    "Field",
    "Form",
    "Schema",
    "TypeDef",
    "TypeMismatchError",
    "decode_body",
    "schema_of",
    "the_schema",
    "unknown_fields",
]
