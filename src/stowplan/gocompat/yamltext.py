"""YAML as sigs.k8s.io/yaml reads and writes it, by the rules of YAML 1.1.

`yes` and `on` are true, `010` is eight, `1_000` a thousand, `~` is null; dates stay strings.
`yaml_to_json` gives the first document as JSON values: members come out sorted by name; a duplicate key wins
over the earlier one and is noted, because strict decoding refuses it. `load_yaml` and `load_yaml_documents`
give plain data with members in their order, for files that people write: there `y` and `n` are names.

All YAML is read here, because a few bytes of it can stand for any amount of data: aliases and merges are
counted as the Go package counts them, their text is bounded too, and nesting ends at MAX_DEPTH. PyYAML's own
composers recurse: 50,000 brackets end the process.
"""

import base64
import binascii
import datetime
import math
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from stowplan.gocompat.jsontext import MAX_DEPTH, Number, ObjectNode, TextError, Tree, float_text
from stowplan.gocompat.quoting import quote

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_WRAPPING = 2**31 - 1
_ALIASES_ALWAYS_FINE = 100
_NODES_ALWAYS_FINE = 1000
_SMALL_DOCUMENT, _LARGE_DOCUMENT = 400_000, 4_000_000
_ALIAS_SHARE_OF_SMALL, _ALIAS_SHARE_OF_LARGE = 0.99, 0.10
_TEXT_ALWAYS_FINE = 16 * 1024 * 1024
_TEXT_GROWTH = 10
_LONGEST_INTEGER = 64
"""Digits that a 64-bit integer has at most, in binary."""

Scalar: TypeAlias = str | bool | int | float | None


class YamlError(TextError):
    """YAML that cannot be read; `line` counts from 1, 0 if the problem is at no line in particular."""

    def __init__(self, message: str, problem: str, line: int = 0) -> None:
        super().__init__(message)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class ExpansionLimit:
    """Bounds on a document with aliases and merges written out, where the Go package's ratio is too much."""

    nodes: int
    text: int


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The JSON value of a document, and its repeated keys as `line 4: key "a" already set in map`."""

    tree: Tree
    repeated_keys: tuple[str, ...] = ()


def yaml_to_json(data: bytes, limit: ExpansionLimit | None = None) -> YamlDocument:
    """Convert the first document of a YAML text. Raises TextError."""
    root = next(parse_documents(data or b"\n"), None)
    if root is None:
        return YamlDocument(None)
    reader = _Converter(len(data), limit)
    value = reader.document(root)
    return YamlDocument(_to_tree(value), tuple(reader.repeated))


def load_yaml(text: str | bytes) -> Any:
    """The first document of a YAML text as plain data, None if there is none. Raises TextError."""
    return next(_loaded(text), None)


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """All documents of a YAML text as plain data; empty ones are None. Raises TextError."""
    return list(_loaded(text))


def _loaded(text: str | bytes) -> Iterator[Any]:
    for root in parse_documents(text):
        yield _to_plain(_Converter(len(text), text_too=_LETTERS).document(root))


def to_yaml(document: Mapping[str, Any]) -> str:
    """Plain data as YAML text."""
    return yaml.dump(
        dict(document), Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=_NO_WRAPPING
    )


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True, eq=False)
class SequenceNode:
    line: int
    elements: list["Node"] = field(default_factory=list)

    @property
    def node(self) -> "SequenceNode":
        return self

    def add(self, node: "Node") -> None:
        self.elements.append(node)


@dataclass(slots=True, eq=False)
class MappingNode:
    line: int
    pairs: list[tuple["Node", "Node"]] = field(default_factory=list)


class _OpenMapping:
    """A mapping while its keys and values are read in turn."""

    __slots__ = ("_key", "node")

    def __init__(self, line: int) -> None:
        self.node = MappingNode(line)
        self._key: Node | None = None

    def add(self, node: "Node") -> None:
        if self._key is None:
            self._key = node
        else:
            self.node.pairs.append((self._key, node))
            self._key = None


@dataclass(slots=True, eq=False)
class AliasNode:
    line: int
    name: str
    target: "Node"


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode | AliasNode


def parse_documents(text: str | bytes) -> Iterator[Node]:
    """The documents of a YAML text, each read when it is wanted. Raises YamlError."""
    events = yaml.parse(text, Loader=_LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                root = _compose(events)
                # An error after the root is noticed only at a check for the end.
                next(events)
                yield root
    except yaml.YAMLError as error:
        raise _parse_error(error) from None


def _compose(events: Iterator[yaml.Event]) -> Node:
    """The nodes of one document, from the parser's events up to its end."""
    anchors: dict[str, Node] = {}
    opened: list[SequenceNode | _OpenMapping] = []
    while True:
        event = next(events)
        line = event.start_mark.line + 1 if event.start_mark else 0
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = ScalarNode(line, event.value, event.tag or "", event.implicit[0])
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                problem = f"unknown anchor '{event.anchor}' referenced"
                raise YamlError(f"yaml: {problem}", problem, line)
            node = AliasNode(line, event.anchor, anchors[event.anchor])
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(opened) >= MAX_DEPTH:
                raise _too_deep(line)
            begun = SequenceNode(line) if isinstance(event, yaml.SequenceStartEvent) else _OpenMapping(line)
            opened.append(begun)
            if event.anchor:
                anchors[event.anchor] = begun.node
            continue
        else:
            node = opened.pop().node
        if event.__class__ is yaml.ScalarEvent and event.anchor:
            anchors[event.anchor] = node
        if not opened:
            return node
        opened[-1].add(node)


def _too_deep(line: int) -> YamlError:
    problem = f"exceeded max depth of {MAX_DEPTH}"
    return YamlError(f"yaml: line {line}: {problem}", problem, line)


def _parse_error(error: yaml.YAMLError) -> YamlError:
    """The problem. The message counts lines as the Go reader does: scanner errors from 1, others from 0."""
    if isinstance(error, yaml.reader.ReaderError):
        return YamlError(f"yaml: {error.reason}", str(error.reason))
    if not isinstance(error, yaml.MarkedYAMLError):
        return YamlError(f"yaml: {error}", str(error))
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    problem = error.problem or "unknown problem parsing YAML content"
    mark = error.problem_mark or error.context_mark
    return YamlError(f"yaml: {where}{problem}", problem, mark.line + 1 if mark is not None else 0)


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
_LETTERS: Final = frozenset("yYnN")
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
    """True if unquoted text would be read as text."""
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
    digits = match[base].lstrip("0") or "0"
    if len(digits) > _LONGEST_INTEGER:
        return None
    value = int(digits, _BASES[base])
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
    """Turns the nodes of a document of `size` bytes into values, following aliases and merges.

    Each node counts whenever it is visited, within an alias once for each time the alias is used: the Go
    package refuses documents of which too much comes from aliases, and the counts are the same as its.
    """

    def __init__(
        self, size: int, limit: ExpansionLimit | None = None, text_too: Set[str] = frozenset()
    ) -> None:
        """`text_too` are words that are text although the Go package takes them for something else."""
        self.repeated: list[str] = []
        self._text_too = text_too
        self._limit = limit
        self._most_text = max(_TEXT_ALWAYS_FINE, size * _TEXT_GROWTH) if limit is None else limit.text
        self._open_aliases: set[int] = set()
        self._depth = 0
        self._read = 0
        self._read_in_aliases = 0
        self._text = 0

    def document(self, root: Node) -> _Value:
        self._count(root)
        return self.value(root)

    def value(self, node: Node) -> _Value:
        self._count(node)
        if isinstance(node, ScalarNode):
            self._text += len(node.text)
            if self._text > self._most_text:
                raise _excessive(node)
            is_text = not node.tag and (not node.plain or node.text in self._text_too)
            return node.text if is_text else resolve_scalar(node.tag, node.text)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep(node.line)
        value: _Value
        if isinstance(node, AliasNode):
            self._enter(node)
            value = self.value(node.target)
            self._open_aliases.remove(id(node))
        elif isinstance(node, SequenceNode):
            value = [self.value(element) for element in node.elements]
        else:
            value = _Map()
            self._fill(value, node)
        self._depth -= 1
        return value

    def _count(self, node: Node) -> None:
        self._read += 1
        if self._open_aliases:
            self._read_in_aliases += 1
            in_aliases = self._read_in_aliases
            is_large = in_aliases > _ALIASES_ALWAYS_FINE and self._read > _NODES_ALWAYS_FINE
            if is_large and in_aliases / self._read > _allowed_share(self._read):
                raise _excessive(node)
        if self._limit is not None and self._read > self._limit.nodes:
            problem = f"document has more than {self._limit.nodes} nodes"
            raise YamlError(f"yaml: {problem}", problem, node.line)

    def _enter(self, node: AliasNode) -> None:
        if id(node) in self._open_aliases:
            problem = f"anchor '{node.name}' value contains itself"
            raise YamlError(f"yaml: {problem}", problem, node.line)
        self._open_aliases.add(id(node))

    def _fill(self, mapping: _Map, node: MappingNode) -> None:
        for key_node, value_node in node.pairs:
            if isinstance(key_node, ScalarNode) and key_node.is_merge:
                self._merge(mapping, value_node)
                continue
            key = self.value(key_node)
            if isinstance(key, (list, _Map)):
                problem = f"invalid map key: {_go_syntax(key)}"
                raise YamlError(f"yaml: {problem}", problem, key_node.line)
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
                problem = "map merge requires map or sequence of maps as the value"
                raise YamlError(f"yaml: {problem}", problem, source.line)
            self._count(source)
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise _too_deep(source.line)
            if isinstance(source, AliasNode):
                self._enter(source)
                self._count(target)
            self._fill(mapping, target)
            self._open_aliases.discard(id(source))
            self._depth -= 1


def _allowed_share(read: int) -> float:
    """The share of visits that aliases may cause: large documents have to consist of their own text."""
    if read <= _SMALL_DOCUMENT:
        return _ALIAS_SHARE_OF_SMALL
    if read >= _LARGE_DOCUMENT:
        return _ALIAS_SHARE_OF_LARGE
    way = (read - _SMALL_DOCUMENT) / (_LARGE_DOCUMENT - _SMALL_DOCUMENT)
    return _ALIAS_SHARE_OF_SMALL - (_ALIAS_SHARE_OF_SMALL - _ALIAS_SHARE_OF_LARGE) * way


def _excessive(node: Node) -> YamlError:
    problem = "document contains excessive aliasing"
    return YamlError(f"yaml: {problem}", problem, node.line)


def _to_plain(value: _Value) -> Any:
    if isinstance(value, _Map):
        return {_member_name(key, item): _to_plain(item) for (_, key), item in value.entries.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list) else value


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
