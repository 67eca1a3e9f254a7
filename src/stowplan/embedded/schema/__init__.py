"""What objects look like: the fields of every kind that is served, and the types of what stands in them.

One table (`types.txt`) serves everybody who has to know: bodies are checked against it, unknown fields found,
documents about the API written, and server-side apply learns from it the keys of lists.
"""

from stowplan.embedded.schema.strict import TypeMismatchError, decode_body, unknown_fields
from stowplan.embedded.schema.types import Field, Form, Schema, TypeDef, the_schema

__all__ = [
    "Field",
    "Form",
    "Schema",
    "TypeDef",
    "TypeMismatchError",
    "decode_body",
    "the_schema",
    "unknown_fields",
]
