"""Parsing YAML text into nodes: structure, anchors and line numbers, nothing interpreted yet."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from stowplan.config.tree import MAX_DEPTH, TextError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    """The first document of a YAML text, None if there is none; what follows it is not looked at."""
    events = yaml.parse(data, Loader=_LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                return _Composer(events).node(0)
    except yaml.YAMLError as error:
        raise TextError(f"yaml: {_describe(error)}") from None
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


def _describe(error: yaml.YAMLError) -> str:
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
