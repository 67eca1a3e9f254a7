"""Manifests that operations name, filled in for one object after the other."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.lab.bench.perf.definitions import DefinitionError
from stowplan.lab.bench.perf.templates import Function, Template, TemplateError

_VARYING: Final = frozenset({"Index", "Count"})


def _whole(value: Any) -> int:
    """A number without its fraction, towards zero."""
    return int(float(value)) if isinstance(value, str) else int(value)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "AddFloat": lambda one, other: float(one) + float(other),
    "AddInt": lambda one, other: _whole(one) + _whole(other),
    "DivideFloat": lambda one, other: float(one) / float(other),
    "DivideInt": lambda one, other: _whole(_whole(one) / _whole(other)),
    "Int": _whole,
    "JSON": json.dumps,
    "Mod": lambda one, other: _whole(one) % _whole(other),
    "MultiplyFloat": lambda one, other: float(one) * float(other),
    "MultiplyInt": lambda one, other: _whole(one) * _whole(other),
    "SubtractFloat": lambda one, other: float(one) - float(other),
    "SubtractInt": lambda one, other: _whole(one) - _whole(other),
}
"""The functions that upstream's benchmarks give to templates."""


class PerfManifests:
    """Templates by path, each read once."""

    def __init__(self) -> None:
        self._templates: dict[Path, Template] = {}
        self._encoded: dict[Path, bytes] = {}
        """Objects of templates that were asked for without data."""

    def one(self, path: Path, data: Mapping[str, Any] | None = None) -> Json:
        """One object. Raises DefinitionError."""
        if data:
            return _decoded(path, self._render(path, data))
        if path not in self._encoded:
            self._encoded[path] = msgspec.json.encode(_decoded(path, self._render(path, {})))
        found: Json = msgspec.json.decode(self._encoded[path])
        return found

    def many(self, path: Path, count: int, params: Mapping[str, Any] | None = None) -> Iterator[Json]:
        """`count` objects, numbered by `.Index`; read only once if they are all identical."""
        varies = bool(self._template(path).fields & _VARYING)
        if count and not varies:
            encoded = msgspec.json.encode(self.one(path, params))
            for _ in range(count):
                yield msgspec.json.decode(encoded)
            return
        for index in range(count):
            yield self.one(path, {**(params or {}), "Index": index, "Count": count})

    def _template(self, path: Path) -> Template:
        if path not in self._templates:
            try:
                self._templates[path] = Template(path.read_text(), FUNCTIONS)
            except OSError as error:
                raise DefinitionError(f"{path}: {error.strerror}") from None
            except TemplateError as error:
                raise DefinitionError(f"{path}: {error}") from None
        return self._templates[path]

    def _render(self, path: Path, data: Mapping[str, Any]) -> str:
        try:
            return self._template(path).render(data)
        except TemplateError as error:
            raise DefinitionError(f"{path}: {error}") from None


def _decoded(path: Path, text: str) -> Json:
    try:
        document = load_yaml(text)
    except TextError as error:
        raise DefinitionError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise DefinitionError(f"{path}: expected an object")
    made: Json = _without_nulls(document)
    return made


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
