"""Names, labels, annotations, owners."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, invalid, required
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    path_segment_problems,
    service_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json

_NAMES: Final[Mapping[Resource, Callable[[str], list[str]]]] = {
    catalogue.NAMESPACES: dns_label_problems,
    catalogue.SERVICES: service_name_problems,
    catalogue.ROLES: path_segment_problems,
    catalogue.ROLE_BINDINGS: path_segment_problems,
    catalogue.CLUSTER_ROLES: path_segment_problems,
    catalogue.CLUSTER_ROLE_BINDINGS: path_segment_problems,
}
_MOST_ANNOTATIONS: Final = 256 * 1024
_good_keys: set[str] = set()
_good_values: set[str] = {""}
_MOST_REMEMBERED: Final = 10_000


def metadata_errors(resource: Resource, metadata: Json) -> list[FieldError]:
    """What is wrong with an object's metadata."""
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    if name and not _is_good_name(resource, name):
        problems = _NAMES.get(resource, subdomain_problems)(name)
        errors += [invalid("metadata.name", name, problem) for problem in problems]
    if metadata.get("labels"):
        errors += label_errors(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        errors += _annotation_errors(metadata["annotations"])
    for i, owner in enumerate(metadata.get("ownerReferences") or ()):
        errors += _owner_errors(owner, f"metadata.ownerReferences[{i}]")
    for finalizer in metadata.get("finalizers") or ():
        errors += [
            invalid("metadata.finalizers", finalizer, problem) for problem in label_key_problems(finalizer)
        ]
    return errors


def _is_good_name(resource: Resource, name: str) -> bool:
    """The quick answer for names as nearly all are: letters, digits and dashes."""
    plain = name.replace("-", "")
    quick = plain.isascii() and plain.isalnum() and plain.islower() and len(name) < 64
    return quick and name[0] != "-" and name[-1] != "-" and resource not in _NAMES


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """What is wrong with labels. Those that were found good are remembered."""
    for key, value in labels.items():
        if key not in _good_keys:
            problems = label_key_problems(key)
            yield from (invalid(path, key, problem) for problem in problems)
            _remember(_good_keys, key, problems)
        if value not in _good_values:
            problems = label_value_problems(value)
            yield from (invalid(path, value, problem) for problem in problems)
            _remember(_good_values, value, problems)


def _remember(good: set[str], text: str, problems: list[str]) -> None:
    if not problems:
        if len(good) >= _MOST_REMEMBERED:
            good.clear()
        good.add(text)


def _annotation_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    path = "metadata.annotations"
    size = 0
    for key, value in annotations.items():
        if key not in _good_keys:
            yield from (invalid(path, key, problem) for problem in label_key_problems(key.lower()))
        size += len(key) + len(value)
    if size > _MOST_ANNOTATIONS:
        yield FieldError(path, Kind.TOO_LONG, "", f"may not be more than {_MOST_ANNOTATIONS} bytes")


def _owner_errors(owner: Any, path: str) -> Iterator[FieldError]:
    for field, text in (
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ):
        if not owner.get(field):
            yield invalid(f"{path}.{field}", owner.get(field) or "", text)


def name_errors(path: str, name: str | None, problems: Callable[[str], list[str]]) -> Iterator[FieldError]:
    """What is wrong with a name somewhere within an object, which has to be there."""
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, problem) for problem in problems(name))
