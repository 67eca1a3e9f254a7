"""Fields of a kubeconfig: read with their place at hand, so that mistakes are told with file and field."""

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stowplan.client.http.settings import AccessError, Secret


class Fields:
    """A map in a file. Fields that are absent or null are empty."""

    def __init__(self, data: dict[Any, Any], where: str, place: str = "", *, folder: Path) -> None:
        self._data = data
        self._place = place
        self.where = where
        self.folder = folder

    def path(self, field: str) -> str:
        """A field's place in the file."""
        return f"{self._place}.{field}" if self._place else field

    def problem(self, field: str, text: str) -> AccessError:
        return AccessError(f"{self.where}: {self.path(field)}: {text}")

    def has(self, field: str) -> bool:
        return self._data.get(field) is not None

    def __iter__(self) -> Iterator[str]:
        return map(str, self._data)

    def raw(self, field: str) -> Any:
        return self._data.get(field)

    def text(self, field: str) -> str:
        value = self._data.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem(field, f"expected text, got {_kind(value)}")
        return value

    def texts(self, field: str) -> list[str]:
        value = self._data.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.problem(field, "expected a list of texts")
        return value

    def flag(self, field: str) -> bool:
        value = self._data.get(field)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.problem(field, f"expected true or false, got {_kind(value)}")
        return value

    def part(self, field: str) -> "Fields":
        value = self._data.get(field)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.problem(field, f"expected a map, got {_kind(value)}")
        return Fields(value, self.where, self.path(field), folder=self.folder)

    def items(self, field: str) -> Iterator["Fields"]:
        value = self._data.get(field)
        if value is None:
            return
        if not isinstance(value, list):
            raise self.problem(field, f"expected a list, got {_kind(value)}")
        for number, item in enumerate(value):
            place = f"{self.path(field)}[{number}]"
            if not isinstance(item, dict):
                raise AccessError(f"{self.where}: {place}: expected a map, got {_kind(item)}")
            yield Fields(item, self.where, place, folder=self.folder)

    def file(self, field: str) -> str:
        """A path, which begins at the kubeconfig's folder if it is relative."""
        given = self.text(field)
        return str(self.folder / given) if given else ""

    def secret(self, field: str) -> Secret:
        """`<field>-data`, which is base64 and counts for more, or the file `<field>`."""
        encoded = self.text(f"{field}-data")
        if encoded:
            try:
                return Secret(base64.b64decode("".join(encoded.split()), validate=True))
            except (binascii.Error, ValueError):
                raise self.problem(f"{field}-data", "expected base64") from None
        path = self.file(field)
        if path and not Path(path).is_file():
            raise self.problem(field, f"expected a file, got {path}")
        return Secret(file=path)

    def encoded(self, path: str) -> str:
        """A file's content as base64."""
        try:
            return base64.b64encode(Path(path).read_bytes()).decode()
        except OSError as error:
            raise AccessError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _kind(value: Any) -> str:
    """What a value is; not the value itself, which may be a secret."""
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else f"a value of type {type(value).__name__}"
