"""Schemas of objects: the fields of every served kind, and their types.

One table (`types.txt`) serves all purposes: bodies are checked against it, unknown fields found, API
documents written, and server-side apply takes the keys of lists from it. It has the kinds and fields of all
releases with their ranges of releases; `schema_of` is the part of one release.
"""

from stowplan.localcluster.schema.strict import TypeMismatchError, decode_body, unknown_fields
from stowplan.localcluster.schema.types import Form, Schema, SchemaField, TypeDef, schema_of, the_schema

__all__ = [
    "Form",
    "Schema",
    "SchemaField",
    "TypeDef",
    "TypeMismatchError",
    "decode_body",
    "schema_of",
    "the_schema",
    "unknown_fields",
]
