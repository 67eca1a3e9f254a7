"""Reading manifests: as people write them, and as `kubectl get -o yaml` prints those of a cluster."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml_documents

STDIN: Final = Path("-")
SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Files of a directory that are read, as kubectl reads them."""


class LoadError(ValueError):
    """A file that cannot be read; the message is one line that names it and what was expected."""


class Manifest(NamedTuple):
    """An object from a file, and where it stood."""

    place: str
    body: Json

    @property
    def api_version(self) -> str:
        return str(self.body.get("apiVersion") or "")

    @property
    def kind(self) -> str:
        return str(self.body.get("kind") or "")

    @property
    def metadata(self) -> Json:
        found = self.body.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def is_dumped(self) -> bool:
        """True if it was an object of a cluster, rather than written by hand."""
        return bool(self.metadata.get("uid"))


def read_manifests(paths: Sequence[Path]) -> list[Manifest]:
    """The objects in files and directories; `-` is stdin. Raises LoadError if one cannot be read at all."""
    return [manifest for path in paths for file in _files(path) for manifest in _read_file(file)]


def _files(path: Path) -> list[Path]:
    if path == STDIN or not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not found:
        raise LoadError(f"{path}: expected files that end in {', '.join(SUFFIXES)}")
    return found


def _read_file(path: Path) -> Iterator[Manifest]:
    name = "stdin" if path == STDIN else str(path)
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
        documents = _documents(text)
    except OSError as error:
        raise LoadError(f"{name}: {error.strerror}") from None
    except (TextError, UnicodeDecodeError) as error:
        raise LoadError(f"{name}: not YAML or JSON: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise LoadError(f"{name}: nested too deeply") from None
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _objects(f"{name}: document {number}", document)


def _documents(text: str) -> list[Any]:
    """The documents of a text. JSON is read as such, which is much faster; there may be several."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError):  # then it is YAML in braces
            return list(_json_documents(text))
    return load_yaml_documents(text)


def _json_documents(text: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    while (rest := len(text) - len(text[place:].lstrip())) < len(text):
        document, place = decoder.raw_decode(text, rest)
        yield document


def _objects(place: str, document: Any) -> Iterator[Manifest]:
    """The objects of a document: itself, or the items of a list."""
    if not isinstance(document, dict):
        yield Manifest(place, {"": document})
        return
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield Manifest(place, document)
        return
    for number, item in enumerate(items):
        if isinstance(item, dict) and kind != "List":
            own = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
            item = {**own, **item}
        yield from _objects(f"{place}: items[{number}]", item)
