"""Where something stands in a YAML or JSON file, so that a mistake is reported with file, line and field."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import (
    AliasNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    YamlError,
    load_yaml,
    parse_documents,
)
from stowplan.simulate.snapshot.files import SnapshotError

T = TypeVar("T")

MOST_BYTES: Final = 1 << 30
_AT: Final = re.compile(r" - at `(key in )?\$(?P<path>[^`]*)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")


@dataclass(frozen=True, slots=True)
class Place:
    """An object in a file: the number of its document, and which item of a list (in a list) it is."""

    file: str
    text: str
    document: int = 0
    items: tuple[int, ...] = ()
    inside: str = ""
    """The field that holds it, if it stands in an object of another kind."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line()}"

    def line(self, field: str = "") -> int:
        """The line of a field such as `spec.containers[0].image`, or of the nearest one that is there."""
        steps: list[str | int] = []
        for number in self.items:
            steps += ["items", number]
        return line_of(self.text, self.document, [*steps, *_steps(self.inside), *_steps(field)])

    def says(self, problem: str) -> SnapshotError:
        """An error about what msgspec says is wrong here: `file:line: field: what was expected`."""
        field, text = field_and_text(problem)
        return self.wrong(field, text)

    def wrong(self, field: str, text: str) -> SnapshotError:
        """An error about a field."""
        around = (*(f"items[{number}]" for number in self.items), self.inside, field)
        whole = ".".join(one for one in around if one)
        return SnapshotError(f"{self.file}:{self.line(field)}: {whole}{': ' if whole else ''}{text}")


def field_and_text(problem: str) -> tuple[str, str]:
    """The field that a message of msgspec is about, and what it says, in our words."""
    kind, colon, rest = problem.partition(": ")
    if colon and kind.isidentifier():
        problem = rest
    found = _AT.search(problem)
    path = found["path"].removeprefix(".") if found else ""
    text = problem[: found.start()] if found else problem
    for pattern, words in ((_UNKNOWN, "unknown field"), (_MISSING, "required field is missing")):
        about = pattern.fullmatch(text)
        if about:
            return f"{path}{'.' if path else ''}{about['field']}", words
    text = text.replace(" | null`", "`")
    return path.replace("[...]", ""), f"{text[:1].lower()}{text[1:]}"


def line_of(text: str, document: int, steps: Sequence[str | int]) -> int:
    """The line, from 1, of what stands at some steps into a document; of the last step that is there."""
    try:
        at = next(itertools.islice(parse_documents(text), document, None), None)
    except TextError:
        return 1
    if at is None:
        return 1
    line = at.line
    for step in steps:
        found = _child(at, step)
        if found is None:
            break
        line, at = found
    return line


def _child(tree: Node, step: str | int) -> tuple[int, Node] | None:
    tree = tree.target if isinstance(tree, AliasNode) else tree
    if isinstance(tree, SequenceNode) and isinstance(step, int) and step < len(tree.elements):
        return tree.elements[step].line, tree.elements[step]
    if isinstance(tree, MappingNode):
        for key, value in tree.pairs:
            if isinstance(key, ScalarNode) and key.text == str(step):
                return key.line, value
    return None


def _steps(field: str) -> list[str | int]:
    steps: list[str | int] = []
    for name, number in _STEP.findall(field):
        if number == "...":
            break
        steps.append(name or int(number))
    return steps


def read_document(path: Path, cls: type[T]) -> tuple[T, Place]:
    """A file with one document of a kind of our own. Raises SnapshotError with file, line and field."""
    text = read_text(path)
    try:
        data = load_yaml(text)
    except TextError as error:
        raise not_yaml(str(path), error) from None
    place = Place(str(path), text)
    return convert_at(data, cls, place), place


def convert_at(data: Any, cls: type[T], place: Place) -> T:
    """Plain data as a value of a type. Raises SnapshotError with file, line and field."""
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        raise place.says(str(error)) from None


def read_bytes(path: Path) -> bytes:
    """A file. Raises SnapshotError if it is too large, or has no end, as a device."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SnapshotError(f"{path}: expected at most {MOST_BYTES >> 30} GiB")
    return data


def read_text(path: Path) -> str:
    """A text file. Raises SnapshotError."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{path}: byte {error.start}: expected UTF-8") from None


def not_yaml(name: str, error: Exception) -> SnapshotError:
    """Error for a file that is neither YAML nor JSON."""
    line = error.line if isinstance(error, YamlError) else 0
    problem = error.problem if isinstance(error, YamlError) else " ".join(str(error).split())
    return SnapshotError(f"{name}{f':{line}' if line else ''}: not YAML or JSON: {problem}")
