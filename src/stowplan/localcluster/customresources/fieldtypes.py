"""How server-side apply looks into custom objects: by the list and map types that their schema says."""

from itertools import count
from typing import Any, Final

from stowplan.localcluster.apply.shapes import DEDUCED, ONE_VALUE, FieldShape, ListShape, MapShape, shape_of
from stowplan.localcluster.customresources.structural import ABSENT, META_FIELDS, StructuralSchema
from stowplan.localcluster.schema import the_schema

_numbers: Final = count(1)


class ObjectShape(FieldShape):
    """A map with fields; what the schema does not know is looked into as far as its values say."""

    is_map = True

    def __init__(self, schema: StructuralSchema, *, is_resource: bool = False) -> None:
        self._schema = schema
        self._is_resource = is_resource or schema.embedded
        self._children: dict[str, tuple[str, FieldShape]] = {}
        if is_resource:
            self.full_name = f"custom.{next(_numbers)}"

    def named(self, name: str) -> bool:
        return name in self._schema.properties or (self._is_resource and name in META_FIELDS)

    def child(self, name: str) -> tuple[str, FieldShape]:
        found = self._children.get(name)
        if found is None:
            found = self._children[name] = (f"f:{name}", self._shape(name))
        return found

    def _shape(self, name: str) -> FieldShape:
        if self._is_resource and name in META_FIELDS:
            return shape_of(the_schema().types["meta.v1.ObjectMeta"]) if name == "metadata" else ONE_VALUE
        part = self._schema.properties.get(name)
        return DEDUCED if part is None else shape_of_schema(part)


class KeyedListShape(ListShape):
    """A list whose elements have keys; a key that is left out has the schema's default."""

    def __init__(self, schema: StructuralSchema) -> None:
        items = schema.items
        super().__init__(schema.list_keys, ONE_VALUE if items is None else shape_of_schema(items))
        parts = {} if items is None else items.properties
        self._defaults = {
            key: parts[key].default
            for key in schema.list_keys
            if key in parts and parts[key].default is not ABSENT
        }

    def step(self, element: Any) -> str:
        if isinstance(element, dict):
            missing = {key: value for key, value in self._defaults.items() if key not in element}
            return super().step({**element, **missing} if missing else element)
        return super().step(element)


def shape_of_schema(schema: StructuralSchema) -> FieldShape:
    """The shape of the values of a schema."""
    if schema.type == "array":
        if schema.list_type == "map":
            return KeyedListShape(schema)
        return ListShape(("",), ONE_VALUE) if schema.list_type == "set" else ONE_VALUE
    if schema.map_type == "atomic":
        return ONE_VALUE
    if schema.type == "object" or schema.preserve:
        if schema.additional is not None and not schema.properties:
            return MapShape(shape_of_schema(schema.additional))
        return ObjectShape(schema) if schema.properties or schema.embedded else DEDUCED
    return ONE_VALUE
