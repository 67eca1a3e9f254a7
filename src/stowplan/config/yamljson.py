"""YAML to JSON values, exactly as the loader of kube-scheduler converts them.

Members come out sorted by name; a repeated key wins over the earlier one and is noted, because strict
decoding refuses it.
"""

import math
from dataclasses import dataclass
from decimal import Decimal

from stowplan.api.fielderrors import quote
from stowplan.config.tree import Number, ObjectNode, TextError, Tree
from stowplan.config.yamlnodes import (
    AliasNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    parse_first_document,
)
from stowplan.config.yamlscalars import Scalar, resolve_scalar

_ALIASES_ALWAYS_FINE = 100
_NODES_ALWAYS_FINE = 1000
_ALIAS_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The JSON value of a document, and its repeated keys as `line 4: key "a" already set in map`."""

    tree: Tree
    repeated_keys: tuple[str, ...] = ()


class _Map:
    """A mapping under construction. Keys of different types are different keys, even if equal in Python."""

    def __init__(self) -> None:
        self.entries: dict[tuple[type, Scalar], _Value] = {}


_Value = Scalar | list["_Value"] | _Map


def yaml_to_json(data: bytes) -> YamlDocument:
    """Convert the first document of a YAML text. Raises TextError."""
    root = parse_first_document(data or b"\n")
    if root is None:
        return YamlDocument(None)
    reader = _Reader()
    value = reader.value(root)
    return YamlDocument(_to_tree(value), tuple(reader.repeated))


class _Reader:
    """Turns nodes into values, following aliases and merges."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._open_aliases: set[int] = set()
        self._read = 0
        self._read_in_aliases = 0

    def value(self, node: Node) -> _Value:
        self._count()
        if isinstance(node, AliasNode):
            return self._alias(node)
        if isinstance(node, ScalarNode):
            is_text = not node.tag and not node.plain
            return node.text if is_text else resolve_scalar(node.tag, node.text)
        if isinstance(node, SequenceNode):
            return [self.value(element) for element in node.elements]
        mapping = _Map()
        self._fill(mapping, node)
        return mapping

    def _count(self) -> None:
        """Refuse documents that consist of little else than repeated aliases."""
        self._read += 1
        self._read_in_aliases += bool(self._open_aliases)
        is_large = self._read_in_aliases > _ALIASES_ALWAYS_FINE and self._read > _NODES_ALWAYS_FINE
        if is_large and self._read_in_aliases / self._read > _ALIAS_SHARE:
            raise TextError("yaml: document contains excessive aliasing")

    def _alias(self, node: AliasNode) -> _Value:
        if id(node) in self._open_aliases:
            raise TextError(f"yaml: anchor '{node.name}' value contains itself")
        self._open_aliases.add(id(node))
        value = self.value(node.target)
        self._open_aliases.remove(id(node))
        return value

    def _fill(self, mapping: _Map, node: MappingNode) -> None:
        for key_node, value_node in node.pairs:
            if isinstance(key_node, ScalarNode) and key_node.is_merge:
                self._merge(mapping, value_node)
                continue
            key = self.value(key_node)
            if isinstance(key, (list, _Map)):
                raise TextError(f"yaml: invalid map key: {_go_syntax(key)}")
            identity = (type(key), key)
            value = self.value(value_node)
            if identity in mapping.entries:
                self.repeated.append(f"line {value_node.line}: key {_go_syntax(key)} already set in map")
            mapping.entries[identity] = value

    def _merge(self, mapping: _Map, node: Node) -> None:
        """Put the members of other mappings into this one; the first of several mappings wins."""
        sources = reversed(node.elements) if isinstance(node, SequenceNode) else [node]
        for source in sources:
            target = source.target if isinstance(source, AliasNode) else source
            if not isinstance(target, MappingNode):
                raise TextError("yaml: map merge requires map or sequence of maps as the value")
            self._fill(mapping, target)


def _to_tree(value: _Value) -> Tree:
    if isinstance(value, _Map):
        members = {_member_name(key, item): _to_tree(item) for (_, key), item in value.entries.items()}
        return ObjectNode(tuple(sorted(members.items())))
    if isinstance(value, list):
        return [_to_tree(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return Number(str(value) if isinstance(value, int) else go_float(value))


def _member_name(key: Scalar, value: _Value) -> str:
    """A key as the name of a member: numbers and truth values are allowed and become text."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None or (isinstance(key, int) and key >= 2**63):
        kind, shown = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
        raise TextError(
            f"unsupported map key of type: {kind}, key: {shown}, value: {_go_syntax(value, '<nil>')}"
        )
    if isinstance(key, int):
        return str(key)
    return {math.inf: ".inf", -math.inf: "-.inf"}.get(key) or (".nan" if math.isnan(key) else f"{key:g}")


def go_float(value: float) -> str:
    """A number with a fraction as Go writes it in JSON: plain unless very large or very small."""
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise TextError(f"json: unsupported value: {name}")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = repr(value).split("e")
    return f"{mantissa}e{int(exponent):+d}"


def _go_syntax(value: _Value, nil: str = "interface {}(nil)") -> str:
    """A value in Go's notation, which some messages show."""
    if value is None:
        return nil
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(_go_syntax(item) for item in value) + "}"
    if isinstance(value, _Map):
        members = (f"{_go_syntax(key)}:{_go_syntax(item)}" for (_, key), item in value.entries.items())
        return "map[interface {}]interface {}{" + ", ".join(sorted(members)) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
