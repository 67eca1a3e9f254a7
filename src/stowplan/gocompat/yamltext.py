"""YAML as sigs.k8s.io/yaml reads and writes it: the first document as JSON values, by the rules of YAML 1.1.

`yes` and `on` are true, `010` is eight, `1_000` a thousand, `~` is null; dates stay strings. Members come out
sorted by name; a duplicate key wins over the earlier one and is noted, because strict decoding refuses it.
"""

import base64
import binascii
import datetime
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from stowplan.gocompat.jsontext import MAX_DEPTH, Number, ObjectNode, TextError, Tree, float_text
from stowplan.gocompat.quoting import quote

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_WRAPPING = 2**31 - 1
_ALIASES_ALWAYS_FINE = 100
_NODES_ALWAYS_FINE = 1000
_ALIAS_SHARE = 0.99
Scalar: TypeAlias = str | bool | int | float | None


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The JSON value of a document, and its repeated keys as `line 4: key "a" already set in map`."""

    tree: Tree
    repeated_keys: tuple[str, ...] = ()


def yaml_to_json(data: bytes) -> YamlDocument:
    """Convert the first document of a YAML text. Raises TextError."""
    root = parse_first_document(data or b"\n")
    if root is None:
        return YamlDocument(None)
    reader = _Converter()
    value = reader.value(root)
    return YamlDocument(_to_tree(value), tuple(reader.repeated))


def to_yaml(document: Mapping[str, Any]) -> str:
    """Plain data as YAML text."""
    return yaml.dump(
        dict(document), Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=_NO_WRAPPING
    )


@dataclass(frozen=True, slots=True, eq=False)
class ScalarNode:
    """A word; `plain` if it was neither quoted nor tagged."""

    line: int
    text: str
    tag: str
    plain: bool

    @property
    def is_merge(self) -> bool:
        """The key `<<`, which merges another mapping into this one."""
        return self.text == "<<" and (self.plain or self.tag == "tag:yaml.org,2002:merge")


@dataclass(frozen=True, slots=True, eq=False)
class SequenceNode:
    line: int
    elements: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class MappingNode:
    line: int
    pairs: list[tuple["Node", "Node"]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class AliasNode:
    line: int
    name: str
    target: "Node"


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode | AliasNode


def parse_first_document(data: bytes) -> Node | None:
    """The first document of a YAML text, None if there is none; what follows its end is not looked at."""
    events = yaml.parse(data, Loader=_LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                root = _Composer(events).node(0)
                # What cannot stand behind the root is noticed only where the end is looked for.
                next(events)
                return root
    except yaml.YAMLError as error:
        raise TextError(f"yaml: {_parse_error(error)}") from None
    return None


class _Composer:
    """Builds nodes from the parser's events."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, Node] = {}

    def node(self, depth: int) -> Node:
        node = self._node_from(next(self._events), depth)
        assert node is not None
        return node

    def _node_from(self, event: yaml.Event, depth: int) -> Node | None:
        """The node an event begins, None for the event that ends a sequence or mapping."""
        line = event.start_mark.line + 1 if event.start_mark else 0
        if depth > MAX_DEPTH:
            raise TextError(f"yaml: line {line}: exceeded max depth of {MAX_DEPTH}")
        if isinstance(event, yaml.ScalarEvent):
            scalar = ScalarNode(line, event.value, event.tag or "", event.implicit[0])
            self._remember(event, scalar)
            return scalar
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        if isinstance(event, yaml.SequenceStartEvent):
            sequence = SequenceNode(line)
            self._remember(event, sequence)
            while (element := self._node_from(next(self._events), depth + 1)) is not None:
                sequence.elements.append(element)
            return sequence
        if isinstance(event, yaml.MappingStartEvent):
            mapping = MappingNode(line)
            self._remember(event, mapping)
            while (key := self._node_from(next(self._events), depth + 1)) is not None:
                mapping.pairs.append((key, self.node(depth + 1)))
            return mapping
        return None

    def _remember(self, event: yaml.NodeEvent, node: Node) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node

    def _alias(self, event: yaml.AliasEvent, line: int) -> AliasNode:
        if event.anchor not in self._anchors:
            raise TextError(f"yaml: unknown anchor '{event.anchor}' referenced")
        return AliasNode(line, event.anchor, self._anchors[event.anchor])


def _parse_error(error: yaml.YAMLError) -> str:
    """The problem, and the line as the Go reader counts: from one in scanner errors, from zero in others."""
    if isinstance(error, yaml.reader.ReaderError):
        return str(error.reason)
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return where + (error.problem or "unknown problem parsing YAML content")


_PREFIX = "tag:yaml.org,2002:"
_STR_TAG, _BOOL_TAG, _INT_TAG, _FLOAT_TAG, _NULL_TAG, _TIMESTAMP_TAG, _BINARY_TAG = (
    _PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp", "binary")
)
_RESOLVABLE = frozenset({"", _STR_TAG, _BOOL_TAG, _INT_TAG, _FLOAT_TAG, _NULL_TAG, _TIMESTAMP_TAG})
_WORDS: dict[str, tuple[str, Scalar]] = {
    **dict.fromkeys(
        ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], (_BOOL_TAG, True)
    ),
    **dict.fromkeys(
        ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], (_BOOL_TAG, False)
    ),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], (_NULL_TAG, None)),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], (_FLOAT_TAG, float("nan"))),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], (_FLOAT_TAG, float("inf"))),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], (_FLOAT_TAG, float("-inf"))),
}
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO](?P<octal>[0-7]+)"
    r"|0(?P<zero>[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "zero": 8, "decimal": 10}
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"([Tt]\d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?(Z|[-+]\d\d:\d\d)| \d{1,2}:\d{1,2}:\d{1,2}(\.\d+)?)?"
)


def resolve_scalar(tag: str, text: str) -> Scalar:
    """The value of an unquoted (or tagged) scalar. Raises TextError where a tag does not fit the text."""
    if tag == _BINARY_TAG:
        return _decode_binary(text)
    if tag not in _RESOLVABLE:
        return text
    if tag == _TIMESTAMP_TAG and _is_timestamp(text):
        return text
    found, value = (_STR_TAG, text) if tag == _STR_TAG else _resolve_plain(text)
    if tag in ("", found, _STR_TAG):
        return value
    if tag == _FLOAT_TAG and found == _INT_TAG and isinstance(value, int) and value < 2**63:
        return float(value)
    raise TextError(f"yaml: cannot decode {_short_tag(found)} `{text}` as a {_short_tag(tag)}")


def is_plain_text(text: str) -> bool:
    """Whether unquoted text would be read as text."""
    return _resolve_plain(text)[0] == _STR_TAG


def _resolve_plain(text: str) -> tuple[str, Scalar]:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-":
        plain = text.replace("_", "")
        integer = _parse_int(plain)
        if integer is not None:
            return _INT_TAG, integer
        if _DECIMAL.fullmatch(plain) and abs(float(plain)) != float("inf"):
            return _FLOAT_TAG, float(plain)
    elif text[0] == "." and _DECIMAL.fullmatch(text) and abs(float(text)) != float("inf"):
        return _FLOAT_TAG, float(text)
    return _STR_TAG, text


def _parse_int(text: str) -> int | None:
    """A 64-bit integer in Go's notation, None if the text is none or it does not fit."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    base = next(name for name in _BASES if match[name] is not None)
    value = int(match[base] or "0", _BASES[base])
    if match["sign"] == "-":
        return -value if value <= 2**63 else None
    limit = 2**63 if match["sign"] else 2**64
    return value if value < limit else None


def _is_timestamp(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    try:
        datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return False
    return True


def _decode_binary(text: str) -> str:
    try:
        return base64.b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise TextError("yaml: !!binary value contains invalid base64 data") from None


def _short_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)


class _Map:
    """A mapping under construction. Keys of different types are different keys, even if equal in Python."""

    def __init__(self) -> None:
        self.entries: dict[tuple[type, Scalar], _Value] = {}


_Value = Scalar | list["_Value"] | _Map


class _Converter:
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
    return Number(str(value) if isinstance(value, int) else float_text(value))


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


_STR: Final = "tag:yaml.org,2002:str"
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_ODD_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Quotes strings that would otherwise be read as something else, the way Kubernetes tools do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    resolved: str = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if _ODD_BREAKS.search(text):
        # Only double quotes keep them: PyYAML writes them as they are otherwise, and reading folds them.
        return dumper.represent_scalar(_STR, text, '"')
    style = "|" if "\n" in text else None if resolved != _TIMESTAMP and is_plain_text(text) else '"'
    return dumper.represent_scalar(_STR, text, style)


_Dumper.add_representer(str, _represent_str)
